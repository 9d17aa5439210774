"""A server that needs a token: every way in is closed without it, and it is never said."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from horizon_app.api import access
from horizon_app.api.app import create_app
from horizon_app.contracts.server_proof import proof_of, token_digest
from horizon_app.control.access import new_token
from horizon_app.settings import AppSettings
from tests.support.server import furnish_home, scripted_spec

TOKEN = "the-token-of-this-test"
STREAM = "/api/v1/runs/20260101-000000-abcdef/stream"
NO_SUCH_RUN = 4404
_count = itertools.count()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = furnish_home(tmp_path_factory.mktemp("closed") / "home")
    settings = AppSettings.model_validate({"home": home, "token": TOKEN})
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8321") as client:
        yield client


@pytest.fixture(autouse=True)
def _no_guesses_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test in a time of its own, in which the guesses of those before are long ago."""
    start = 1e6 * (1 + next(_count))
    monkeypatch.setattr(access, "_now", lambda: start)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def here() -> dict[str, str]:
    """Sockets of the test client name another host unless told; it writes into what it is given."""
    return {"host": "127.0.0.1:8321"}


@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/openapi.json", "/api/v1/nothing", "/api/v1/system", "/api"])
def test_api_without_the_token_is_401_and_says_how(closed: TestClient, path: str) -> None:
    answer = closed.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Authorization: Bearer" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/", "/docs", "/api/v1/healthz"])
def test_pages_and_liveness_are_for_everybody(closed: TestClient, path: str) -> None:
    assert closed.get(path).status_code == 200


def test_liveness_shows_whoever_names_a_nonce_that_it_knows_the_token(closed: TestClient, tmp_path: Path) -> None:
    nonce, other = "0123456789abcdef" * 2, "f" * 32
    shown = closed.get("/api/v1/healthz", params={"nonce": nonce}).json()["proof"]
    assert shown == proof_of(token_digest(TOKEN), nonce)
    assert shown not in (proof_of(token_digest(TOKEN), other), proof_of(token_digest("another-token-0123"), nonce))
    assert closed.get("/api/v1/healthz").json()["proof"] is None
    assert closed.get("/api/v1/healthz", params={"nonce": "short"}).status_code == 422
    open_one = TestClient(create_app(AppSettings(home=tmp_path)), base_url="http://127.0.0.1:8321")
    assert open_one.get("/api/v1/healthz", params={"nonce": nonce}).json()["proof"] is None


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_api_with_the_token_answers(closed: TestClient, scheme: str) -> None:
    assert closed.get("/api/v1/runs", headers={"authorization": f"{scheme} {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic dGVzdDp0ZXN0", TOKEN, f"Bearer {TOKEN}x"])
def test_header_without_the_right_token_is_401(closed: TestClient, header: str) -> None:
    assert closed.get("/api/v1/runs", headers={"authorization": header}).status_code == 401


def test_token_in_an_address_or_a_cookie_opens_nothing(closed: TestClient) -> None:
    assert closed.get(f"/api/v1/runs?token={TOKEN}&access_token={TOKEN}").status_code == 401
    assert closed.get("/api/v1/runs", headers={"cookie": f"token={TOKEN}"}).status_code == 401


def test_refused_submission_leaves_no_run(closed: TestClient) -> None:
    assert closed.post("/api/v1/runs", json={"spec": scripted_spec()}).status_code == 401
    assert closed.get("/api/v1/runs", headers=bearer(TOKEN)).json()["total"] == 0


def test_no_problem_repeats_the_token_that_was_sent(closed: TestClient) -> None:
    wrong = "a-guess-of-somebody-else"
    answers = [
        closed.get("/api/v1/runs", headers=bearer(wrong)),
        closed.get("/api/v1/runs/x", headers=bearer(TOKEN)),
        closed.post("/api/v1/runs", content="{", headers={**bearer(TOKEN), "content-type": "application/json"}),
    ]
    assert [answer.status_code for answer in answers] == [401, 404, 422]
    assert all(wrong not in answer.text and TOKEN not in answer.text for answer in answers)


def test_guessing_has_to_wait_and_repeating_an_old_token_has_not(
    closed: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [access._now()]
    monkeypatch.setattr(access, "_now", lambda: now[0])
    for _ in range(50):
        assert closed.get("/api/v1/runs", headers=bearer("an-old-token")).status_code == 401
    for number in range(access.Tries.MOST - 1):
        assert closed.get("/api/v1/runs", headers=bearer(f"guess-{number}")).status_code == 401
    limited = closed.get("/api/v1/runs", headers=bearer(TOKEN))
    assert limited.status_code == 429
    assert 0 < int(limited.headers["retry-after"]) <= access.Tries.WINDOW_S + 1
    now[0] += access.Tries.WINDOW_S + 1
    assert closed.get("/api/v1/runs", headers=bearer(TOKEN)).status_code == 200


def test_addresses_that_are_remembered_are_bounded() -> None:
    tries = access.Tries()
    for number in range(3000):
        tries.note(f"10.0.{number // 256}.{number % 256}", "wrong")
    assert len(tries._wrong) <= 1000


def answered_subprotocol(client: TestClient, *offered: str) -> str | None:
    socket = client.websocket_connect(STREAM, subprotocols=offered, headers=here())
    with pytest.raises(WebSocketDisconnect) as end, socket:
        socket.receive_text()
    assert end.value.code == NO_SUCH_RUN
    return socket.accepted_subprotocol


def test_socket_with_the_token_as_subprotocol_is_answered_with_the_plain_one(closed: TestClient) -> None:
    assert answered_subprotocol(closed, "horizon", f"horizon.token.{TOKEN}") == "horizon"


def test_open_server_answers_the_subprotocol_too(client: TestClient) -> None:
    assert answered_subprotocol(client, "horizon", "horizon.token.of-another-time") == "horizon"
    assert answered_subprotocol(client, "other") is None


def test_socket_with_the_token_in_the_header_is_let_in(closed: TestClient) -> None:
    with (
        pytest.raises(WebSocketDisconnect) as end,
        closed.websocket_connect(STREAM, headers=here() | bearer(TOKEN)) as socket,
    ):
        socket.receive_text()
    assert end.value.code == NO_SUCH_RUN


def test_socket_with_a_wrong_subprotocol_is_denied_with_401(closed: TestClient) -> None:
    offered = ["horizon", "horizon.token.wrong-wrong-wrong"]
    with (
        pytest.raises(WebSocketDenialResponse) as denied,
        closed.websocket_connect("/api/v1/stream", subprotocols=offered, headers=here()),
    ):
        pass
    assert denied.value.status_code == 401
    assert "wrong-wrong" not in denied.value.text


def test_socket_with_the_token_as_first_text_goes_on_as_if_it_had_come_with_it(closed: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect) as end, closed.websocket_connect(STREAM, headers=here()) as socket:
        socket.send_text(json.dumps({"token": TOKEN}))
        socket.receive_text()
    assert end.value.code == NO_SUCH_RUN


@pytest.mark.parametrize("first", ['{"token": "wrong"}', "{", "[]", '{"residency_hz": 1}', '{"token": 5}', "x" * 5000])
def test_socket_with_another_first_text_is_closed(closed: TestClient, first: str) -> None:
    with pytest.raises(WebSocketDisconnect) as end, closed.websocket_connect(STREAM, headers=here()) as socket:
        socket.send_text(first)
        socket.receive_text()
    assert end.value.code == access.TOKEN_MISSING


def test_silent_socket_is_closed_after_a_while(closed: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_FIRST_TEXT_WITHIN_S", 0.05)
    with pytest.raises(WebSocketDisconnect) as end, closed.websocket_connect(STREAM, headers=here()) as socket:
        socket.receive_text()
    assert end.value.code == access.TOKEN_MISSING


def test_token_that_was_replaced_no_longer_opens_a_running_server(home: Path) -> None:
    settings = AppSettings(home=home, require_token=True)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8321") as client:
        assert client.get("/api/v1/runs", headers=bearer("none-is-set-yet")).status_code == 401
        old = new_token(home)
        assert client.get("/api/v1/runs", headers=bearer(old)).status_code == 200
        new = new_token(home)
        statuses = [client.get("/api/v1/runs", headers=bearer(token)).status_code for token in (old, new)]
    assert statuses == [401, 200]
