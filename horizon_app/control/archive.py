"""Ended runs are put away: nothing of them is lost, they are only listed no more unless asked for."""

from datetime import UTC, datetime

from horizon_app.contracts.events import FactNoted
from horizon_app.contracts.run_state import ENDED
from horizon_app.contracts.run_view import Run
from horizon_app.control.errors import RunIsLive
from horizon_app.control.lifecycle import locked_run, tell
from horizon_app.control.views import run_view
from horizon_app.store.database import Database
from horizon_app.store.runs import update_run


def set_archived(database: Database, run_id: str, *, archived: bool, who: str) -> Run:
    """Put an ended run away, or take it back. Raises RunNotFound, RunIsLive."""
    with database.write() as tx:
        run = locked_run(tx, run_id)
        if run.state not in ENDED:
            raise RunIsLive(run_id=run_id, state=run.state, action="archived" if archived else "unarchived")
        if archived != (run.archived_at is not None):
            now = datetime.now(UTC)
            update_run(tx, run_id, archived_at=now if archived else None)
            message = "put into the archive" if archived else "taken out of the archive"
            tell(tx, run, FactNoted(time=now, kind="archive", message=message, data={"archived": archived, "who": who}))
        return run_view(locked_run(tx, run_id))
