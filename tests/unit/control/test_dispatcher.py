"""What holds a device though its run has ended."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from horizon_app.contracts.run_state import RunState
from horizon_app.control.dispatcher import Dispatcher
from horizon_app.control.hub import Hub
from horizon_app.settings import AppSettings
from horizon_app.store.runs import get_run, update_run
from tests.support.idle_launcher import IdleLauncher
from tests.support.server import wait_for
from tests.support.stores import add_run, open_store


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as process:
        yield process


async def test_worker_that_outlives_its_run_holds_the_device_for_a_new_server_too(
    tmp_path: Path, worker: subprocess.Popen[bytes]
) -> None:
    launcher = IdleLauncher()
    with open_store(tmp_path) as database:
        ended = add_run(database, RunState.FINISHED)
        with database.write() as tx:
            update_run(tx, ended, pid=worker.pid, process_start=psutil.Process(worker.pid).create_time())
        waiting, elsewhere = add_run(database), add_run(database, queue_device="cuda:0")
        settings = AppSettings(home=tmp_path)
        dispatcher = Dispatcher(database=database, hub=Hub(database), launcher=launcher, settings=settings)
        running = asyncio.create_task(dispatcher.run())
        try:
            await asyncio.to_thread(wait_for, lambda: launcher.ids, "a run is started")
            assert launcher.ids == [elsewhere]
            worker.kill()
            await asyncio.to_thread(wait_for, lambda: len(launcher.ids) == 2, "the device is given back")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        with database.read() as tx:
            run = get_run(tx, ended)
    assert launcher.ids == [elsewhere, waiting]
    assert run is not None and run.state is RunState.FINISHED
