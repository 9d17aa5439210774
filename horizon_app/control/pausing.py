"""Runs that hold between two optimizer steps with everything in memory, and go on when told."""

from horizon_app.contracts.commands import ContinueRun, PauseRun
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import Run
from horizon_app.control.errors import IllegalTransition
from horizon_app.control.lifecycle import locked_run
from horizon_app.control.run_folder import RunFolder
from horizon_app.control.views import run_view
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database

_TRAINS = frozenset({RunState.STARTING, RunState.RUNNING})


class Pausing:
    """Tells workers to pause and to continue. What they make of it they say themselves, by their journal."""

    def __init__(self, database: Database, settings: AppSettings) -> None:
        self._database, self._settings = database, settings

    def pause(self, run_id: str, *, save: bool, who: str) -> Run:
        """Ask a run to hold after the optimizer step that is being done. Raises RunNotFound, IllegalTransition."""
        with self._database.write() as tx:
            run = locked_run(tx, run_id)
            if run.state not in _TRAINS:
                raise IllegalTransition(run_id=run_id, old=run.state, new=RunState.PAUSED)
            self._folder(run_id).append_command(PauseRun(save=save, who=who))
            return run_view(run)

    def go_on(self, run_id: str, *, who: str) -> Run | None:
        """Tell a paused run, or one that is about to pause, to go on; None where it is neither. Raises RunNotFound."""
        with self._database.write() as tx:
            run = locked_run(tx, run_id)
            is_about_to = run.state in _TRAINS and self._folder(run_id).is_told_to_pause()
            if run.state is not RunState.PAUSED and not is_about_to:
                return None
            self._folder(run_id).append_command(ContinueRun(who=who))
            return run_view(run)

    def _folder(self, run_id: str) -> RunFolder:
        return RunFolder(self._settings.runs_dir, run_id)
