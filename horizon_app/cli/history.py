"""The history of runs: through the server that runs on the home folder, else straight from its database."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import httpx

from horizon_app.cli.refusals import CommandFailed
from horizon_app.contracts.comparison import Axis, Comparison
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import CheckpointsAnswer, Run, RunDetail, RunPage
from horizon_app.control.history_export import ExportFormat
from horizon_app.control.server_file import find_server
from horizon_app.settings import AppSettings

if TYPE_CHECKING:
    from horizon_app.control.workstation import Workstation


@dataclass(frozen=True, kw_only=True, slots=True)
class RunQuery:
    """Which runs are listed."""

    state: RunState | None = None
    tag: str | None = None
    q: str | None = None
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


class History(Protocol):
    """What the `runs` verbs need. Every method raises CommandFailed or ControlError with a text ready to print."""

    def list(self, query: RunQuery) -> RunPage:
        """A page of the history."""
        ...

    def show(self, run_id: str) -> RunDetail:
        """One run."""
        ...

    def stop(self, run_id: str, *, save: bool) -> Run:
        """Stop a live run at its next optimizer step."""
        ...

    def delete(self, run_id: str) -> int:
        """Delete a run that has ended; gives the bytes freed."""
        ...

    def resume(self, run_id: str, changes: Mapping[str, Any]) -> Run:
        """Queue an ended run again, with changes to its spec by dotted key."""
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
            state=states, tag=query.tag, q=query.q, sort=query.sort, limit=query.limit, cursor=query.cursor
        )

    def show(self, run_id: str) -> RunDetail:
        """One run."""
        return self._station.run(run_id)

    def stop(self, run_id: str, *, save: bool) -> Run:
        """Stop a live run."""
        return self._station.stop(run_id, save=save)

    def delete(self, run_id: str) -> int:
        """Delete a run that has ended."""
        return self._station.delete(run_id)

    def resume(self, run_id: str, changes: Mapping[str, Any]) -> Run:
        """Queue an ended run again: it starts with the next server, or the next `horizon run`."""
        return self._station.resume(run_id, changes, by_client=False)

    def save_checkpoint(self, run_id: str) -> Run:
        """Ask a live run for a checkpoint."""
        return self._station.save_checkpoint(run_id)

    def checkpoints(self, run_id: str) -> CheckpointsAnswer:
        """The checkpoints of a run."""
        return self._station.checkpoints(run_id)

    def pin(self, run_id: str, step: int, *, pinned: bool) -> CheckpointsAnswer:
        """Keep a checkpoint, or no longer."""
        return self._station.pin(run_id, step, pinned=pinned)

    def compare(self, run_ids: Sequence[str], question: CompareQuery) -> Comparison:
        """Several runs side by side."""
        return self._station.comparisons.compare(
            run_ids, question.keys, max_points=question.max_points, axis=question.axis
        )

    def export(self, run_id: str, form: ExportFormat) -> Iterator[bytes]:
        """Everything of a run, as a file of this format."""
        return self._station.exports.export(run_id, form).parts


class ServerHistory:
    """The history through the REST API of a running server."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def list(self, query: RunQuery) -> RunPage:
        """A page of the history."""
        return RunPage.model_validate(self._call("GET", "/runs", params=query.given()))

    def show(self, run_id: str) -> RunDetail:
        """One run."""
        return RunDetail.model_validate(self._call("GET", _of(run_id)))

    def stop(self, run_id: str, *, save: bool) -> Run:
        """Stop a live run."""
        return Run.model_validate(self._call("POST", f"{_of(run_id)}/stop", json={"save": save}))

    def delete(self, run_id: str) -> int:
        """Delete a run that has ended."""
        return int(self._call("DELETE", _of(run_id))["freed_bytes"])

    def resume(self, run_id: str, changes: Mapping[str, Any]) -> Run:
        """Queue an ended run again."""
        return Run.model_validate(self._call("POST", f"{_of(run_id)}/resume", json={"set": dict(changes)}))

    def save_checkpoint(self, run_id: str) -> Run:
        """Ask a live run for a checkpoint."""
        return Run.model_validate(self._call("POST", f"{_of(run_id)}/checkpoint"))

    def checkpoints(self, run_id: str) -> CheckpointsAnswer:
        """The checkpoints of a run."""
        return CheckpointsAnswer.model_validate(self._call("GET", f"{_of(run_id)}/checkpoints"))

    def pin(self, run_id: str, step: int, *, pinned: bool) -> CheckpointsAnswer:
        """Keep a checkpoint, or no longer."""
        answer = self._call("POST" if pinned else "DELETE", f"{_of(run_id)}/checkpoints/{step}/pin")
        return CheckpointsAnswer.model_validate(answer)

    def compare(self, run_ids: Sequence[str], question: CompareQuery) -> Comparison:
        """Several runs side by side."""
        params = {"ids": ",".join(run_ids), "max_points": question.max_points, "x": question.axis.value}
        if question.keys is not None:
            params["keys"] = ",".join(question.keys)
        return Comparison.model_validate(self._call("GET", "/runs/compare", params=params))

    def export(self, run_id: str, form: ExportFormat) -> Iterator[bytes]:
        """Everything of a run, as a file of this format."""
        try:
            with self._client.stream("GET", f"{_of(run_id)}/export", params={"format": form.value}) as answer:
                if answer.is_error:
                    answer.read()
                    raise CommandFailed(_problem_text(answer))
                yield from answer.iter_bytes()
        except httpx.HTTPError as error:
            raise CommandFailed(f"the server at {self._client.base_url} does not answer: {error}") from error

    def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            answer = self._client.request(method, path, **request)
        except httpx.HTTPError as error:
            raise CommandFailed(f"the server at {self._client.base_url} does not answer: {error}") from error
        if answer.is_error:
            raise CommandFailed(_problem_text(answer))
        return answer.json()


def _of(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


@contextmanager
def open_history(settings: AppSettings) -> Generator[History]:
    """The history of a home folder, by whichever way there is."""
    server = find_server(settings.home)
    if server is not None:
        with httpx.Client(base_url=server_url(server.host, server.port) + "/api/v1", timeout=30.0) as client:
            yield ServerHistory(client)
        return
    from horizon_app.control.workstation import Workstation

    with Workstation(settings) as station:
        station.catch_up()
        yield StationHistory(station)


def server_url(host: str, port: int) -> str:
    """Where a server that bound `host` is reached from this machine."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"


def _problem_text(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
        return str(problem.get("detail") or problem["title"])
    except (ValueError, KeyError, AttributeError):
        return f"the server answered {answer.status_code} {answer.reason_phrase}"
