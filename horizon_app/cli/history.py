"""The history of runs: through the server that runs on the home folder, else straight from its database."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from horizon_app.cli.local_server import find_horizon, server_refusals
from horizon_app.cli.settling import settle_alone
from horizon_app.client.calls import Calls
from horizon_app.contracts.comparison import Axis, Comparison
from horizon_app.contracts.events import COMMAND_LINE
from horizon_app.contracts.history_query import CompareQuery, RunQuery
from horizon_app.contracts.run_checks import AppliedFix, RunChecks
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import CheckpointsAnswer, Freed, QueueAnswer, Run, RunDetail, RunPage
from horizon_app.control.history_export import ExportFormat
from horizon_app.settings import AppSettings

if TYPE_CHECKING:
    from horizon_app.control.workstation import Workstation


class StationHistory:
    """The history of a home folder without a server: the client's calls by the same names."""

    def __init__(self, station: "Workstation") -> None:
        self._station = station

    def list(self, query: RunQuery) -> RunPage:
        """A page of the history."""
        states = [] if query.state is None else [RunState(word) for word in query.state.split(",")]
        return self._station.runs(
            state=states,
            tag=query.tag,
            q=query.q,
            archived=query.archived or "false",
            sort=query.sort,
            limit=query.limit,
            cursor=query.cursor,
        )

    def show(self, run_id: str) -> RunDetail:
        """One run."""
        return self._station.run(run_id)

    def stop(self, run_id: str, *, save: bool) -> Run:
        """Stop a live run."""
        return self._station.stop(run_id, save=save, who=COMMAND_LINE)

    def pause(self, run_id: str, *, save: bool) -> Run:
        """Have a run hold."""
        return self._station.pausing.pause(run_id, save=save, who=COMMAND_LINE)

    def delete(self, run_id: str, *, pinned_too: bool) -> Freed:
        """Delete a run that is not live."""
        return self._station.deletion.delete(run_id, pinned_too=pinned_too)

    def queue(self) -> QueueAnswer:
        """What each device does and what waits for it."""
        return self._station.queue.overview()

    def start(self, run_id: str) -> Run:
        """Let a held run start with the next server."""
        return self._station.queue.start(run_id, who=COMMAND_LINE)

    def hold(self, run_id: str) -> Run:
        """Keep a queued run from starting."""
        return self._station.queue.hold(run_id, who=COMMAND_LINE)

    def move(self, run_id: str, place: Mapping[str, Any]) -> Run:
        """Give a queued run another place."""
        return self._station.queue.move(run_id, **place, who=COMMAND_LINE)

    def clone(self, run_id: str, changes: Mapping[str, Any], *, name: str | None, start: bool) -> RunDetail:
        """Submit the spec of a run again: it starts with the next server."""
        return self._station.clone(run_id, changes, name=name, start=start, by_client=False, who=COMMAND_LINE)

    def archive(self, run_id: str, *, archived: bool) -> Run:
        """Put an ended run away, or take it back."""
        return self._station.archive(run_id, archived=archived, who=COMMAND_LINE)

    def resume(self, run_id: str, changes: Mapping[str, Any]) -> Run:
        """Queue an ended run again: it starts with the next server, or the next `horizon run`."""
        return self._station.resume(run_id, changes, by_client=False, who=COMMAND_LINE)

    def save_checkpoint(self, run_id: str) -> Run:
        """Ask a live run for a checkpoint."""
        return self._station.save_checkpoint(run_id)

    def checkpoints(self, run_id: str) -> CheckpointsAnswer:
        """The checkpoints of a run."""
        return self._station.checkpoints(run_id)

    def pin(self, run_id: str, step: int, *, pinned: bool) -> CheckpointsAnswer:
        """Keep a checkpoint, or no longer."""
        return self._station.pin(run_id, step, pinned=pinned)

    def checks(self, run_id: str) -> RunChecks:
        """The checklist of a run."""
        return self._station.history.checks(run_id)

    def apply(self, run_id: str, check: str, *, start: bool) -> AppliedFix:
        """Do what a check proposes, and wait for the worker's answer where it changes knobs."""
        done = self._station.fixes.apply(run_id, check, start=start, by_client=False, who=COMMAND_LINE)
        knobs = None if done.asked is None else settle_alone(self._station, done.asked)
        return done.fix.model_copy(update={"knobs": knobs})

    def compare(self, run_ids: Sequence[str], question: CompareQuery) -> Comparison:
        """Several runs side by side."""
        return self._station.comparisons.compare(
            run_ids, question.keys, max_points=question.max_points, axis=Axis(question.axis)
        )

    def export(self, run_id: str, form: ExportFormat) -> Iterator[bytes]:
        """Everything of a run, as a file of this format."""
        return self._station.exports.export(run_id, form).parts


History = Calls | StationHistory
"""What the `runs` verbs ask; a type checker holds them to what both have.

Every method raises HorizonError or ControlError with a text ready to print.
"""


@contextmanager
def open_history(settings: AppSettings) -> Generator[History]:
    """The history of a home folder, by whichever way there is."""
    server = find_horizon(settings)
    if server is not None:
        with server_refusals(), server:
            yield server.calls
        return
    from horizon_app.control.workstation import Workstation

    with Workstation(settings) as station:
        station.catch_up()
        yield StationHistory(station)
