from contextlib import suppress

import httpx
import pytest

from horizon_app.cli.history import History
from horizon_app.cli.local_server import server_refusals, server_url
from horizon_app.cli.refusals import CommandFailed
from horizon_app.client import Horizon, HorizonError
from horizon_app.contracts.history_query import CompareQuery, RunQuery
from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.run_state import RunState
from horizon_app.control.errors import BadQuery


def history(status: int, body: object, seen: list[httpx.Request] | None = None) -> History:
    def answer(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        return httpx.Response(status, json=body)

    return Horizon("http://server", http=httpx.MockTransport(answer), retry_for=0.0).calls


def refusal(name: str, status: int, detail: str, *fields: str) -> History:
    errors = [{"field": field, "message": detail} for field in fields]
    return history(
        status, {"type": f"horizon:{name}", "title": "No", "status": status, "detail": detail, "errors": errors}
    )


def test_server_history_asks_only_for_what_was_given() -> None:
    seen: list[httpx.Request] = []
    page = history(200, {"runs": [], "next_cursor": None, "total": 0, "counts": {}}, seen).list(
        RunQuery(state=RunState.RUNNING, limit=5)
    )
    assert page.runs == []
    assert seen[0].url.path == "/api/v1/runs"
    assert dict(seen[0].url.params) == {"state": "running", "sort": "-created_at", "limit": "5"}


def test_server_history_compares_what_was_asked() -> None:
    seen: list[httpx.Request] = []
    with suppress(HorizonError):  # the question is what counts here
        history(200, {}, seen).compare(["a", "b"], CompareQuery(keys=["train/loss"], max_points=9))
    assert dict(seen[0].url.params) == {"ids": "a,b", "max_points": "9", "x": "step", "keys": "train/loss"}


def test_server_history_delete_gives_the_bytes_freed() -> None:
    assert history(200, {"freed_bytes": 12}).delete("r1", pinned_too=False).freed_bytes == 12


def test_refusal_of_the_server_fails_with_the_problems_detail() -> None:
    with pytest.raises(CommandFailed, match="run r1 is finished"), server_refusals():
        refusal("run-not-live", 409, "run r1 is finished").stop("r1", save=True)


def test_question_refused_by_the_server_is_one_asked_wrongly_as_without_a_server() -> None:
    with pytest.raises(BadQuery, match="no such key") as raised, server_refusals():
        refusal("query-invalid", 422, "no such key", "sort").list(RunQuery(sort="odd"))
    assert raised.value.field == "sort"


def test_spec_refused_by_the_server_is_a_refused_spec_as_without_a_server() -> None:
    with pytest.raises(SpecRefused) as raised, server_refusals():
        refusal("spec-refused", 422, "can't change", "model.path").resume("r1", {"model.path": "x"})
    assert [problem.field for problem in raised.value.errors] == ["model.path"]


def test_answer_that_is_no_problem_names_the_status() -> None:
    with pytest.raises(CommandFailed, match="502"), server_refusals():
        history(502, ["odd"]).show("r1")


def test_server_without_an_answer_is_named() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    server = Horizon("http://server", http=httpx.MockTransport(refuse), retry_for=0.0)
    with pytest.raises(CommandFailed, match="http://server"), server_refusals():
        server.calls.delete("r1")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8321"),
        ("0.0.0.0", "http://127.0.0.1:8321"),
        ("::", "http://[::1]:8321"),
        ("::1", "http://[::1]:8321"),
    ],
)
def test_server_url_reaches_what_was_bound(host: str, url: str) -> None:
    assert server_url(host, 8321) == url
