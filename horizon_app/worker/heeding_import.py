"""Imports that take seconds, and that a run which is asked to stop does not wait for."""

import importlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for

_POLL_S = 0.05


class ImportStopped(Exception):
    """The run was asked to stop while a module was being imported."""


def import_heeding_stop(module: str, should_stop: Callable[[], bool]) -> None:
    """Import a module, so that importing from it takes no time; passes on what the import raises.

    An import can't be broken off. It has a thread of its own, which is left behind where `should_stop` says so first:
    the process ends without waiting for it. Raises ImportStopped.
    """
    done = Future[None]()
    threading.Thread(target=_import, args=(module, done), name=f"import-{module}", daemon=True).start()
    while not wait_for([done], _POLL_S).done:
        if should_stop():
            raise ImportStopped(module)
    done.result()


def _import(module: str, done: Future[None]) -> None:
    try:
        importlib.import_module(module)
    # Whatever a library's import raises is raised where it was asked for.
    except BaseException as error:  # noqa: BLE001
        done.set_exception(error)
    else:
        done.set_result(None)
