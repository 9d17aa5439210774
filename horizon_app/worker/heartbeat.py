"""Says once a second that this worker lives, and notices when nobody wants its run any more."""

import json
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from horizon_app.worker.durable_files import replace_file

_log = logging.getLogger(__name__)
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


class Heartbeat:
    """A thread that replaces worker.json each `interval_s` seconds for as long as the run is this worker's."""

    def __init__(
        self, run_dir: Path, interval_s: float = 1.0, *, each_beat: Callable[[], None] = lambda: None
    ) -> None:  # fmt: skip
        """`each_beat` is called after each beat, on the thread."""
        self.unwanted = ""
        """Why nobody wants this worker any more: it ends itself at the next optimizer step and writes nothing."""
        self._run_dir = run_dir
        self._interval_s = interval_s
        self._each_beat = each_beat
        self._identity = {"pid": os.getpid(), "start_time": psutil.Process().create_time()}
        self._folder_id = _identity_of(run_dir)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_closed, name="heartbeat", daemon=True)
        self._write_failed = False

    def start(self) -> None:
        """Beat once now, then each interval until `close`."""
        self._beat()
        self._thread.start()

    def close(self) -> None:
        """Stop beating."""
        self._closed.set()
        self._thread.join(timeout=5.0)

    def _beat_until_closed(self) -> None:
        while not self._closed.wait(self._interval_s):
            self.unwanted = self.unwanted or self._why_unwanted()
            if self.unwanted:
                return
            self._beat()
            self._each_beat()

    def _why_unwanted(self) -> str:
        if _identity_of(self._run_dir) != self._folder_id:
            return "the run's folder was deleted or renamed while it ran"
        try:
            named = json.loads((self._run_dir / "worker.json").read_bytes()).get("pid")
        except (OSError, ValueError, AttributeError):
            return ""  # not there, or not readable at this moment: nobody else's name
        return "" if named == self._identity["pid"] else f"the worker process {named} has taken the run over"

    def _beat(self) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT
        content = {**self._identity, "heartbeat": time.time(), "peak_bytes": peak}
        try:
            replace_file(self._run_dir / "worker.json", json.dumps(content).encode())
            self._write_failed = False
        except FileNotFoundError:
            return  # the folder is gone, which the next beat finds
        except OSError as error:
            # A full disk stops the beats and not the run: the supervisor also looks at the process itself.
            if not self._write_failed:
                _log.warning("the heartbeat could not be written: %s", error)
            self._write_failed = True


def _identity_of(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
