"""One device, one queue: the next run starts when nothing is live, whichever processes look at the database."""

from horizon_app.contracts.events import SERVER
from horizon_app.contracts.run_state import RunState
from horizon_app.control.launcher import Launcher
from horizon_app.control.lifecycle import change_state
from horizon_app.control.process_watch import boot_id
from horizon_app.store.database import Database
from horizon_app.store.runs import get_order, get_run, live_runs, next_queued, update_run


def start_next(database: Database, launcher: Launcher, only: str | None = None) -> str | None:
    """Start the head of the queue, or the run `only` where it is queued, if nothing is live; gives its id."""
    with database.write() as tx:  # one writer: of two processes that try, the second finds the first one's run live
        run_id = None if live_runs(tx) else next_queued(tx, only)
        if run_id is None:
            return None
        change_state(tx, run_id, RunState.STARTING, "starting the worker", who=SERVER)
        run, order = get_run(tx, run_id), get_order(tx, run_id)
    assert run is not None and order is not None, "the row was locked above"
    try:
        pid, start_time = launcher.launch(run, order)
    except OSError as error:
        with database.write() as tx:
            change_state(tx, run_id, RunState.FAILED, f"the worker could not be started: {error}", who=SERVER)
        return run_id
    with database.write() as tx:
        update_run(tx, run_id, pid=pid, process_start=start_time, boot_id=boot_id())
    return run_id
