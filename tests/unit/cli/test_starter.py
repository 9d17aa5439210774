import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from horizon_app.cli.refusals import CommandFailed
from horizon_app.cli.starter import start_example
from tests.support.made_up_server import document


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, tuple[int, Any]]], list[httpx.Request]]:
    """A server that answers each `METHOD path` with a status and a body; gives what it was asked."""

    def answer_with(answers: dict[str, tuple[int, Any]]) -> list[httpx.Request]:
        seen: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            status, body = answers[f"{request.method} {request.url.path}"]
            return httpx.Response(status, json=body)

        real_client = httpx.Client

        def client(**given: Any) -> httpx.Client:
            given["transport"] = httpx.MockTransport(answer)
            return real_client(**given)

        monkeypatch.setattr(httpx, "Client", client)
        return seen

    return answer_with


def test_example_without_a_live_run_is_written_and_started(server: Any) -> None:
    seen = server(
        {
            "GET /api/v1/runs": (200, {"counts": {"finished": 3, "running": 0}}),
            "POST /api/v1/examples": (201, {"spec": {"name": "starter"}, "folder": "examples/starter"}),
            "POST /api/v1/runs": (201, document("r1")),
        }
    )
    assert start_example("http://127.0.0.1:8321/") == "the example runs as r1"
    assert json.loads(seen[-1].content) == {"spec": {"name": "starter"}, "start": True}


@pytest.mark.parametrize("state", ["running", "queued", "starting", "stopping"])
def test_example_beside_a_live_run_is_not_started(state: str, server: Any) -> None:
    seen = server({"GET /api/v1/runs": (200, {"counts": {state: 1}})})
    assert state in start_example("http://127.0.0.1:8321")
    assert len(seen) == 1


def test_example_that_the_server_refuses_fails_with_its_words(server: Any) -> None:
    server(
        {
            "GET /api/v1/runs": (200, {"counts": {}}),
            "POST /api/v1/examples": (500, {"title": "No", "status": 500, "detail": "the disk is full"}),
        }
    )
    with pytest.raises(CommandFailed, match="the disk is full"):
        start_example("http://127.0.0.1:8321")
