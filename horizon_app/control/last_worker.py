"""The worker of a run that has ended, on its way out."""

import time

from horizon_app.control import process_watch
from horizon_app.control.errors import WorkerStillThere
from horizon_app.control.run_folder import RunFolder
from horizon_app.store.runs import StoredRun

LAST_WORDS_S = 30.0
"""How long the worker of a run that has ended may take to go."""
_POLL_S = 0.05


def wait_for_last_worker(run: StoredRun, folder: RunFolder) -> None:
    """Two workers in one folder would write over each other, and the last may still close. Raises WorkerStillThere."""
    deadline = time.monotonic() + LAST_WORDS_S
    while (pid := living_worker(run, folder)) is not None:
        if time.monotonic() > deadline:
            raise WorkerStillThere(run_id=run.id, pid=pid)
        time.sleep(_POLL_S)


def living_worker(run: StoredRun, folder: RunFolder) -> int | None:
    """The process id of a run's worker while it lives."""
    known = (run.pid, run.process_start) if run.pid is not None and run.process_start is not None else folder.worker()
    return known[0] if known is not None and process_watch.is_alive(run.id, *known) else None
