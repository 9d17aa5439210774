import httpx
import pytest

from horizon_app.cli.history import RunQuery, ServerHistory, server_url
from horizon_app.cli.refusals import CommandFailed
from horizon_app.contracts.run_state import RunState


def history(status: int, body: object, seen: list[httpx.Request] | None = None) -> ServerHistory:
    def answer(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        return httpx.Response(status, json=body)

    return ServerHistory(httpx.Client(base_url="http://server/api/v1", transport=httpx.MockTransport(answer)))


def test_server_history_asks_only_for_what_was_given() -> None:
    seen: list[httpx.Request] = []
    page = history(200, {"runs": [], "next_cursor": None, "total": 0, "counts": {}}, seen).list(
        RunQuery(state=RunState.RUNNING, limit=5)
    )
    assert page.runs == []
    assert seen[0].url.path == "/api/v1/runs"
    assert dict(seen[0].url.params) == {"state": "running", "sort": "-created_at", "limit": "5"}


def test_server_history_delete_gives_the_bytes_freed() -> None:
    assert history(200, {"freed_bytes": 12}).delete("r1", pinned_too=False).freed_bytes == 12


def test_server_history_of_a_refusal_fails_with_the_problems_detail() -> None:
    body = {"type": "about:blank", "title": "Conflict", "status": 409, "detail": "run r1 is finished"}
    with pytest.raises(CommandFailed, match="run r1 is finished"):
        history(409, body).stop("r1", save=True)


def test_server_history_of_an_answer_that_is_no_problem_names_the_status() -> None:
    with pytest.raises(CommandFailed, match="502"):
        history(502, ["odd"]).show("r1")


def test_server_history_without_an_answer_names_the_server() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    client = httpx.Client(base_url="http://server/api/v1", transport=httpx.MockTransport(refuse))
    with pytest.raises(CommandFailed, match="http://server/api/v1"):
        ServerHistory(client).delete("r1", pinned_too=False)


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
