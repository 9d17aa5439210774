"""One worker a run's folder: a lock that dies with its holder."""

import fcntl
import os
import time
from pathlib import Path

LOCK = "worker.lock"
_POLL_S = 0.05


class RunTaken(Exception):
    """Another worker has this run."""


def take_run(run_dir: Path, patience_s: float = 5.0) -> int:
    """Lock the folder for as long as this process lives; gives the file descriptor. Raises RunTaken, OSError.

    A worker that was killed may still be going: it is waited for.
    """
    fd = os.open(run_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + patience_s
    while not _lock(fd):
        if time.monotonic() >= deadline:
            os.close(fd)
            raise RunTaken(f"another worker has the run in {run_dir}: two would write over each other")
        time.sleep(_POLL_S)
    return fd


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
