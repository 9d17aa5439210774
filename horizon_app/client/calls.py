"""Every call about runs as one method: what is sent, and the view that comes back. All of them raise HorizonError."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from horizon_app.client.errors import BadAnswer
from horizon_app.client.transport import Transport
from horizon_app.contracts.comparison import Comparison
from horizon_app.contracts.history_query import CompareQuery, RunQuery
from horizon_app.contracts.knobs import ChangedKnobs
from horizon_app.contracts.run_checks import AppliedFix, RunChecks
from horizon_app.contracts.run_view import (
    CheckpointsAnswer,
    Freed,
    LogAnswer,
    QueueAnswer,
    Run,
    RunDetail,
    RunPage,
    SeriesAnswer,
)

View = TypeVar("View", bound=BaseModel)


def read_as(view: type[View], body: Any) -> View:
    """An answer as the view that it should be. Raises BadAnswer."""
    try:
        return view.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadAnswer(
            f"the answer is no {view.__name__} ({where}: {first['msg']}); is the server of another version?"
        ) from error


class Calls:
    """The calls about runs, on one server."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def create(self, spec: Any, *, start: bool = True, key: str | None = None) -> RunDetail:
        """Submit a spec: with a key of its own, so that an attempt whose answer was lost is made again safely."""
        body = {"spec": spec, "start": start}
        return read_as(RunDetail, self._keyed("/runs", body, key))

    def list(self, query: RunQuery) -> RunPage:
        """A page of the history."""
        return read_as(RunPage, self.transport.call("GET", "/runs", params=query.given()))

    def queue(self) -> QueueAnswer:
        """What each device does and what waits for it."""
        return read_as(QueueAnswer, self.transport.call("GET", "/queue"))

    def compare(self, run_ids: Sequence[str], question: CompareQuery) -> Comparison:
        """Several runs side by side."""
        params = {"ids": ",".join(run_ids), **question.given()}
        return read_as(Comparison, self.transport.call("GET", "/runs/compare", params=params))

    def show(self, run_id: str) -> RunDetail:
        """One run."""
        return read_as(RunDetail, self.transport.call("GET", of_run(run_id)))

    def edit(self, run_id: str, changes: Mapping[str, Any]) -> Run:
        """Change name, tags or notes."""
        answer = self.transport.call("PATCH", of_run(run_id), json=dict(changes), repeatable=True)
        return read_as(Run, answer)

    def start(self, run_id: str) -> Run:
        """Let a run that is held take its place in the queue."""
        return read_as(Run, self._post(run_id, "start"))

    def hold(self, run_id: str) -> Run:
        """Keep a queued run from starting."""
        return read_as(Run, self._post(run_id, "hold"))

    def move(self, run_id: str, place: Mapping[str, Any]) -> Run:
        """Give a queued run another place: `before` another run (None: behind all), or a `position`."""
        return read_as(Run, self._post(run_id, "move", dict(place)))

    def pause(self, run_id: str, *, save: bool = False) -> Run:
        """Have a run hold after the step that is being done."""
        return read_as(Run, self._post(run_id, "pause", {"save": save}))

    def resume(self, run_id: str, changes: Mapping[str, Any]) -> Run:
        """Go on with a paused run; queue an ended one again, with changes to its spec by dotted key."""
        return read_as(Run, self._post(run_id, "resume", {"set": dict(changes)}))

    def stop(self, run_id: str, *, save: bool = True) -> Run:
        """Stop a run at its next optimizer step."""
        return read_as(Run, self._post(run_id, "stop", {"save": save}))

    def save_checkpoint(self, run_id: str) -> Run:
        """Ask a live run for a checkpoint."""
        return read_as(Run, self._post(run_id, "checkpoint"))

    def clone(
        self, run_id: str, changes: Mapping[str, Any], *, name: str | None = None, start: bool = True,
        key: str | None = None,
    ) -> RunDetail:  # fmt: skip
        """A new run of the same spec, with changes by dotted key."""
        body: dict[str, Any] = {"set": dict(changes), "start": start}
        if name is not None:
            body["name"] = name
        return read_as(RunDetail, self._keyed(of_run(run_id, "clone"), body, key))

    def archive(self, run_id: str, *, archived: bool = True) -> Run:
        """Put an ended run out of the history's list, or back into it."""
        return read_as(Run, self._post(run_id, "archive" if archived else "unarchive"))

    def delete(self, run_id: str, *, pinned_too: bool = False) -> Freed:
        """Delete a run that is not live; unless `pinned_too`, only where none of its checkpoints is pinned."""
        params = {"pinned": "delete"} if pinned_too else {}
        return read_as(Freed, self.transport.call("DELETE", of_run(run_id), params=params))

    def export(self, run_id: str, form: str) -> Iterator[bytes]:
        """The history of a run as a file: csv, json or html."""
        return self.transport.parts(of_run(run_id, "export"), params={"format": form})

    def set_knobs(
        self, run_id: str, knobs: Mapping[str, Any], *, version: int | None = None, patience_s: float | None = None
    ) -> ChangedKnobs:
        """Change knobs of a live run; with a version only where nobody has changed them since."""
        return self._knobs("PATCH", of_run(run_id, "knobs"), dict(knobs), version, patience_s)

    def undo_knobs(
        self, run_id: str, number: int | None = None, *, version: int | None = None, patience_s: float | None = None
    ) -> ChangedKnobs:
        """Take back the change of this number, or the newest that was not taken back."""
        return self._knobs("POST", of_run(run_id, "knobs", "undo"), {"number": number}, version, patience_s)

    def checkpoints(self, run_id: str) -> CheckpointsAnswer:
        """The checkpoints of a run."""
        return read_as(CheckpointsAnswer, self.transport.call("GET", of_run(run_id, "checkpoints")))

    def checks(self, run_id: str) -> RunChecks:
        """The checklist of a run."""
        return read_as(RunChecks, self.transport.call("GET", of_run(run_id, "checks")))

    def apply(self, run_id: str, check: str, *, start: bool = False) -> AppliedFix:
        """Do what a check proposes; a new run waits, held, unless it is to `start`."""
        answer = self._keyed(of_run(run_id, "checks", quote(check, safe=""), "apply"), {"start": start}, None)
        return read_as(AppliedFix, answer)

    def pin(self, run_id: str, step: int, *, pinned: bool) -> CheckpointsAnswer:
        """Keep a checkpoint from being rotated away, or no longer."""
        path = of_run(run_id, "checkpoints", str(step), "pin")
        answer = self.transport.call("POST" if pinned else "DELETE", path, repeatable=True)
        return read_as(CheckpointsAnswer, answer)

    def series(self, run_id: str, keys: Sequence[str], asked: Mapping[str, Any]) -> SeriesAnswer:
        """Metrics of a run; all of them where no key is named."""
        params = {**asked, "keys": ",".join(keys) or None}
        return read_as(SeriesAnswer, self.transport.call("GET", of_run(run_id, "metrics"), params=params))

    def logs(self, run_id: str, asked: Mapping[str, Any]) -> LogAnswer:
        """Log lines of a run."""
        return read_as(LogAnswer, self.transport.call("GET", of_run(run_id, "logs"), params=asked))

    def _post(self, run_id: str, act: str, body: Any = None) -> Any:
        return self.transport.call("POST", of_run(run_id, act), json=body)

    def _knobs(self, method: str, path: str, body: Any, version: int | None, patience_s: float | None) -> ChangedKnobs:
        """A change of knobs; `patience_s` is how long the server waits for the worker's answer, 5 s where left out."""
        answer = self.transport.call(
            method, path, json=body, headers={} if version is None else {"If-Match": f'"{version}"'},
            params={"patience_s": patience_s},
            timeout_s=None if patience_s is None else patience_s + self.transport.timeout_s,
            # With a version a second attempt finds it used up and is refused, so it can't happen twice.
            repeatable=version is not None,
        )  # fmt: skip
        return read_as(ChangedKnobs, answer)

    def _keyed(self, path: str, body: Any, key: str | None) -> Any:
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return self.transport.call("POST", path, json=body, headers=headers, repeatable=True)


def of_run(run_id: str, *below: str) -> str:
    """The path of a run's route."""
    return "/".join(["/runs", quote(run_id, safe=""), *below])
