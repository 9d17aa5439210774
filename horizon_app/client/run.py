"""One run of a server, as an object."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self, overload

from horizon_app.client.calls import Calls, of_run, read_as
from horizon_app.client.errors import RunFailed
from horizon_app.client.frames import AnyFrame, Frames
from horizon_app.client.series import Series
from horizon_app.client.tables import run_line, run_table
from horizon_app.contracts import run_view
from horizon_app.contracts.events import RunOutcome
from horizon_app.contracts.export import Exported
from horizon_app.contracts.frames import FRAME, Frame
from horizon_app.contracts.knobs import ChangedKnobs
from horizon_app.contracts.run_checks import AppliedFix, RunCheck
from horizon_app.contracts.run_state import RunState

_EVENTS_PAGE = 1000


class Run:
    """A run: its fields are those of the server's answer as of the last call, `refresh` brings them up to date.

    Every method raises HorizonError.
    """

    id: str
    name: str
    tags: list[str]
    notes: str
    state: RunState
    reason: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    device: str | None
    model: run_view.ModelSummary
    step: int
    total_steps: int | None
    sparkline: list[float | None]
    last_seq: int
    spec: dict[str, Any]
    plan: dict[str, Any] | None
    outcome: RunOutcome | None

    def __init__(self, calls: Calls, view: run_view.Run) -> None:
        self.view = view
        """The server's answer as it came; `metrics` and `checkpoints` in it are fields, not the methods here."""
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "view" or name not in run_view.RunDetail.model_fields:
            raise AttributeError(f"a run has no {name!r}")
        if name not in type(self.view).model_fields:
            self.refresh()  # a list's answer has only part of the fields
        return getattr(self.view, name)

    @property
    def last(self) -> dict[str, float | None]:
        """The last value of each metric; None where it was not finite."""
        return self.view.metrics

    def refresh(self) -> Self:
        """Ask the server for the run as it is now."""
        return self._take(self._calls.show(self.id))

    def wait(
        self, timeout: float | None = None, on_frame: Callable[[AnyFrame], object] | None = None, *, check: bool = False
    ) -> Self:
        """Stay until the run has ended, over restarts of the server; gives the run as it ended.

        `timeout` in seconds raises WaitTimeout and leaves the run running; `on_frame` gets what happens meanwhile;
        `check` raises RunFailed where the run failed or its worker vanished.
        """
        for frame in Frames(self._calls, self.id, after=self.view.last_seq, timeout_s=timeout):
            if on_frame is not None:
                on_frame(frame)
        self.refresh()
        if check and self.state in (RunState.FAILED, RunState.INTERRUPTED):
            raise RunFailed(f"run {self.id} ({self.name}) {self.state.value} at step {self.step}: {self.reason}")
        return self

    def stream(self, after: int | None = 0) -> Frames:
        """What happens in the run, frame by frame, until it has ended; for `for` and `async for`.

        `after` is the `seq` of the last frame you have: 0 begins at the beginning, None with a snapshot of now.
        """
        return Frames(self._calls, self.id, after=after)

    @overload
    def metrics(
        self, key: str, /, *, first: int | None = None, last: int | None = None, max_points: int = 1000
    ) -> Series: ...
    @overload
    def metrics(
        self, key: str, second: str, /, *more: str, first: int | None = None, last: int | None = None,
        max_points: int = 1000,
    ) -> dict[str, Series]: ...  # fmt: skip
    @overload
    def metrics(
        self, *, first: int | None = None, last: int | None = None, max_points: int = 1000
    ) -> dict[str, Series]: ...
    def metrics(
        self, *keys: str, first: int | None = None, last: int | None = None, max_points: int = 1000
    ) -> Series | dict[str, Series]:
        """One metric as a Series; several keys, or none for all metrics, give them by key.

        Of more than `max_points` (at most 100,000) optimizer steps between `first` and `last`, the server gives
        minimum, maximum and last of each bucket.
        """
        asked = {"from": first, "to": last, "max_points": max_points}
        found = Series.all_of(self._calls.series(self.id, keys, asked))
        if len(keys) == 1:
            return found.get(keys[0]) or Series(keys[0], [], [])
        return found

    def set(self, knobs: Mapping[str, Any] | None = None, /, **more: Any) -> ChangedKnobs:
        """Change knobs while the run runs, for example `prefetch_window=5`: what they were, are, and from which step.

        Those with a point in their name go in a mapping: `{"checkpoint.every": 50}`. Refused with OutOfDate where
        somebody else has changed knobs since this object was refreshed.
        """
        answer = self._calls.set_knobs(self.id, {**(knobs or {}), **more}, version=self.view.knobs_version)
        self.refresh()
        return answer

    def undo(self, number: int | None = None) -> ChangedKnobs:
        """Take back the newest change of a knob that was not taken back, or the one with this number.

        Refused with OutOfDate where somebody else has changed knobs since this object was refreshed.
        """
        answer = self._calls.undo_knobs(self.id, number, version=self.view.knobs_version)
        self.refresh()
        return answer

    def edit(self, *, name: str | None = None, tags: list[str] | None = None, notes: str | None = None) -> Self:
        """Change the labels; what is left out stays."""
        given = {"name": name, "tags": tags, "notes": notes}
        return self._take(self._calls.edit(self.id, {key: value for key, value in given.items() if value is not None}))

    def start(self) -> Self:
        """Let a run that is held take its place in the queue."""
        return self._take(self._calls.start(self.id))

    def hold(self) -> Self:
        """Keep the queued run from starting; it keeps its place."""
        return self._take(self._calls.hold(self.id))

    def move(self, position: int | None = None) -> Self:
        """Give the queued run another place in the queue of its device, from 1; without one it goes behind all."""
        return self._take(self._calls.move(self.id, {"before": None} if position is None else {"position": position}))

    def pause(self, save: bool = False) -> Self:
        """Have the run hold after the step that is being done; `save` writes a checkpoint then."""
        return self._take(self._calls.pause(self.id, save=save))

    def resume(self, set: Mapping[str, Any] | None = None) -> Self:
        """Go on with a paused run, or queue an ended one again, with other values of its spec by dotted key."""
        return self._take(self._calls.resume(self.id, set or {}))

    def stop(self, save: bool = True) -> Self:
        """Stop the run at its next optimizer step; `save` writes a checkpoint first."""
        return self._take(self._calls.stop(self.id, save=save))

    def checkpoint(self) -> Self:
        """Have the run write a checkpoint after its next optimizer step."""
        return self._take(self._calls.save_checkpoint(self.id))

    def clone(self, set: Mapping[str, Any] | None = None, *, name: str | None = None, start: bool = True) -> "Run":
        """A new run of the same spec, with other values by dotted key."""
        return Run(self._calls, self._calls.clone(self.id, set or {}, name=name, start=start))

    def archive(self) -> Self:
        """Take the ended run out of the history's list."""
        return self._take(self._calls.archive(self.id))

    def unarchive(self) -> Self:
        """Take the run back into the history's list."""
        return self._take(self._calls.archive(self.id, archived=False))

    def delete(self, *, pinned: bool = False) -> int:
        """Delete the run with its checkpoints; gives the bytes freed. `pinned` deletes pinned checkpoints too."""
        return self._calls.delete(self.id, pinned_too=pinned).freed_bytes

    def logs(
        self, *, after: int | None = None, q: str | None = None, level: str | None = None, limit: int = 500
    ) -> list[run_view.LogLine]:
        """Log lines behind the place `after`; the newest where it is left out. At most `limit` that match."""
        found: list[run_view.LogLine] = []
        asked: dict[str, Any] = {"after": after, "q": q, "level": level}
        while len(found) < limit:
            answer = self._calls.logs(self.id, {**asked, "limit": limit - len(found)})
            found = [*answer.lines, *found] if after is None else [*found, *answer.lines]
            if answer.scanned_to is None:  # else the server has looked at as many lines as it does for one answer
                break
            asked["before" if after is None else "after"] = answer.scanned_to
        return found

    def events(self, after: int = 0) -> list[Frame]:
        """What happened, in order: everything but metrics and log lines."""
        found: list[Frame] = []
        while True:
            asked = {"after": found[-1].seq if found else after, "limit": _EVENTS_PAGE}
            page = self._calls.transport.call("GET", of_run(self.id, "events"), params=asked)["events"]
            found += [FRAME.validate_python(event) for event in page]
            if len(page) < _EVENTS_PAGE:
                return found

    def checkpoints(self) -> list[run_view.Checkpoint]:
        """The run's checkpoints, by step."""
        return self._calls.checkpoints(self.id).checkpoints

    def checks(self) -> list[RunCheck]:
        """The checklist: whether the device waits, memory runs out, the loss runs away or swings, and what to do."""
        return self._calls.checks(self.id).checks

    def apply(self, check: str, *, start: bool = False) -> AppliedFix:
        """Do what a check proposes, by its id: change knobs (`.knobs` of the answer) or make a new run (`.run`).

        The new run is held unless it is to `start`. Raises Conflict where there is nothing to do.
        """
        answer = self._calls.apply(self.id, check, start=start)
        self.refresh()
        return answer

    def export(self, path: str | Path, format: Literal["csv", "json", "html"] | None = None) -> Path:
        """Write the run's history into a new file, as what its ending says. Raises FileExistsError too."""
        target = Path(path)
        asked = {"format": format or target.suffix.removeprefix(".")}
        self._calls.transport.download(of_run(self.id, "export"), target, params=asked)
        return target

    def export_model(self, path: str, **asked: Any) -> Exported:
        """Write a checkpoint on the server's machine as a model folder for others: `format`, `dtype`, `checkpoint`.

        Answers when it is written, read back and loaded, which takes as long as it takes.
        """
        body = {"path": path, **asked}
        answer = self._calls.transport.call("POST", of_run(self.id, "export"), json=body, timeout_s=86_400.0)
        return read_as(Exported, answer)

    def __repr__(self) -> str:
        return run_line(self.view)

    def _repr_html_(self) -> str:
        return run_table([self.view])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def _take(self, view: run_view.Run) -> Self:
        self.view = view
        return self
