"""A queue per device: its head starts when nothing holds the device, whichever processes look at the database."""

from collections.abc import Sequence

from horizon_app.contracts.events import SERVER
from horizon_app.contracts.run_state import RunState
from horizon_app.control.launcher import Launcher
from horizon_app.control.lifecycle import change_state
from horizon_app.store.database import Database, Transaction
from horizon_app.store.queue import queued_runs
from horizon_app.store.runs import StoredRun, get_order, live_runs, update_run


def start_next(
    database: Database, launcher: Launcher, *, only: str | None = None, lingering: Sequence[StoredRun] = ()
) -> str | None:
    """Start one run that may start now, or `only` that one, and give its id; None where none may.

    `lingering` are runs that may have a worker though they have ended: they hold their devices too.
    """
    with database.read() as tx:  # most looks find nothing: they need not wait for the writer
        if _next(tx, only, lingering) is None:
            return None
    with database.write() as tx:  # one writer: of two processes that try, the second finds the first one's run live
        run = _next(tx, only, lingering)
        order = None if run is None else get_order(tx, run.id)
        if run is None or order is None:
            return None
        change_state(tx, run.id, RunState.STARTING, f"starting the worker on {run.queue_device}", who=SERVER)
    try:
        pid, start_time = launcher.launch(run, order)
    except OSError as error:
        with database.write() as tx:
            change_state(tx, run.id, RunState.FAILED, f"the worker could not be started: {error}", who=SERVER)
        return run.id
    with database.write() as tx:
        update_run(tx, run.id, pid=pid, process_start=start_time)
    return run.id


def may_run_beside(run: StoredRun, other: StoredRun) -> bool:
    """Whether a run may start while another one is live: on another device, or where both say that they share."""
    return run.queue_device != other.queue_device or (run.share_device and other.share_device)


def _next(tx: Transaction, only: str | None, lingering: Sequence[StoredRun]) -> StoredRun | None:
    """The head of the first queue whose device it may have; nobody overtakes a head that has to wait."""
    holders = [*lingering, *live_runs(tx)]
    heads: dict[str, StoredRun] = {}
    for run in queued_runs(tx):
        if only == run.id or (only is None and not run.held):
            heads.setdefault(run.queue_device, run)
    for run in heads.values():
        if not run.held and all(may_run_beside(run, other) for other in holders):
            return run
    return None
