"""Says once a second that this worker lives, and notices when nobody wants its run any more."""

import json
import logging
import os
import threading
import time
from pathlib import Path

import psutil

from horizon_app.worker.durable_files import replace_file

_log = logging.getLogger(__name__)


class Heartbeat:
    """A thread that replaces worker.json each `interval_s` seconds for as long as the run's folder is there."""

    def __init__(self, run_dir: Path, interval_s: float = 1.0) -> None:
        self.folder_gone = False
        """The run was deleted under the worker: it ends itself at the next optimizer step and writes nothing."""
        self._run_dir = run_dir
        self._interval_s = interval_s
        self._identity = {"pid": os.getpid(), "start_time": psutil.Process().create_time()}
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
        while not self.folder_gone and not self._closed.wait(self._interval_s):
            self._beat()

    def _beat(self) -> None:
        try:
            replace_file(
                self._run_dir / "worker.json", json.dumps({**self._identity, "heartbeat": time.time()}).encode()
            )
            self._write_failed = False
        except FileNotFoundError:
            self.folder_gone = not self._run_dir.exists()
        except OSError as error:
            # A full disk stops the beats and not the run: the supervisor also looks at the process itself.
            if not self._write_failed:
                _log.warning("the heartbeat could not be written: %s", error)
            self._write_failed = True
