"""The history of runs: through the server that runs on the home folder, else straight from its database."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from horizon_app.cli.local_server import find_horizon, server_refusals
from horizon_app.cli.settling import settle_alone
from horizon_app.contracts.comparison import Axis, Comparison
from horizon_app.contracts.events import COMMAND_LINE
from horizon_app.contracts.run_checks import AppliedFix, RunChecks
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import CheckpointsAnswer, Freed, QueueAnswer, Run, RunDetail, RunPage
from horizon_app.control.history_export import ExportFormat
from horizon_app.settings import AppSettings

if TYPE_CHECKING:
    from horizon_app.control.workstation import Workstation


@dataclass(frozen=True, kw_only=True, slots=True)
class RunQuery:
    """Which runs are listed."""

    state: RunState | None = None
    tag: str | None = None
    q: str | None = None
    archived: Literal["true", "all"] | None = None
    sort: str = "-created_at"
    limit: int = 50
    cursor: str | None = None

    def given(self) -> dict[str, Any]:
        """The fields that ask for something."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareQuery:
    """What is compared of runs."""

    keys: Sequence[str] | None = None
    max_points: int = 500
    axis: Axis = Axis.STEP

    def given(self) -> dict[str, Any]:
        """The question as REST takes it."""
        keys = {} if self.keys is None else {"keys": ",".join(self.keys)}
        return {"max_points": self.max_points, "x": self.axis.value, **keys}


class History(Protocol):
    """What the `runs` verbs need. Every method raises HorizonError or ControlError with a text ready to print."""

    def list(self, query: RunQuery) -> RunPage:
        """A page of the history."""
        ...

    def show(self, run_id: str) -> RunDetail:
        """One run."""
        ...

    def stop(self, run_id: str, *, save: bool) -> Run:
        """Stop a live run at its next optimizer step."""
        ...

    def pause(self, run_id: str, *, save: bool) -> Run:
        """Have a run hold after the step that is being done."""
        ...

    def delete(self, run_id: str, *, pinned_too: bool) -> Freed:
        """Delete a run that is not live; unless `pinned_too`, only where none of its checkpoints is pinned."""
        ...

    def queue(self) -> QueueAnswer:
        """What each device does and what waits for it."""
        ...

    def start(self, run_id: str) -> Run:
        """Let a held run start when its turn comes."""
        ...

    def hold(self, run_id: str) -> Run:
        """Keep a queued run from starting."""
        ...

    def move(self, run_id: str, place: Mapping[str, Any]) -> Run:
        """Give a queued run another place: `before` another run (None: behind all), or a `position`."""
        ...

    def clone(self, run_id: str, changes: Mapping[str, Any], *, name: str | None, start: bool) -> RunDetail:
        """Submit the spec of a run again, with changes by dotted key."""
        ...

    def archive(self, run_id: str, *, archived: bool) -> Run:
        """Put an ended run away, or take it back."""
        ...

    def resume(self, run_id: str, changes: Mapping[str, Any]) -> Run:
        """Queue an ended run again, with changes to its spec by dotted key; a paused one goes on as it is."""
        ...

    def save_checkpoint(self, run_id: str) -> Run:
        """Ask a live run for a checkpoint."""
        ...

    def checkpoints(self, run_id: str) -> CheckpointsAnswer:
        """The checkpoints of a run."""
        ...

    def pin(self, run_id: str, step: int, *, pinned: bool) -> CheckpointsAnswer:
        """Keep a checkpoint from being rotated away, or no longer."""
        ...

    def checks(self, run_id: str) -> RunChecks:
        """The checklist of a run."""
        ...

    def apply(self, run_id: str, check: str, *, start: bool) -> AppliedFix:
        """Do what a check proposes; a new run waits, held, unless it is to start."""
        ...

    def compare(self, run_ids: Sequence[str], question: CompareQuery) -> Comparison:
        """Several runs side by side."""
        ...

    def export(self, run_id: str, form: ExportFormat) -> Iterator[bytes]:
        """Everything of a run, as a file of this format."""
        ...


class StationHistory:
    """The history of a home folder without a server."""

    def __init__(self, station: "Workstation") -> None:
        self._station = station

    def list(self, query: RunQuery) -> RunPage:
        """A page of the history."""
        states = [] if query.state is None else [query.state]
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
            run_ids, question.keys, max_points=question.max_points, axis=question.axis
        )

    def export(self, run_id: str, form: ExportFormat) -> Iterator[bytes]:
        """Everything of a run, as a file of this format."""
        return self._station.exports.export(run_id, form).parts


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
