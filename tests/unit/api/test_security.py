"""What another site could send is refused, on every way in."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from horizon_app.api.request_log import RequestLog
from horizon_app.api.security import Guard
from tests.support.server import scripted_spec

HOST = "127.0.0.1:8321"


def post(client: TestClient, host: str, origin: str | None, kind: str) -> int:
    headers = {"host": host, "content-type": kind, **({} if origin is None else {"origin": origin})}
    body = '{"spec": {}}'
    return client.post("/api/v1/runs", content=body, headers=headers).status_code


@pytest.mark.parametrize(
    ("host", "origin", "kind", "status"),
    [
        (HOST, None, "application/json", 422),
        (HOST, "http://127.0.0.1:8321", "application/json", 422),
        ("localhost:8321", "http://localhost:8321", "application/json; charset=utf-8", 422),
        ("[::1]:8321", "http://[::1]:8321", "application/json", 422),
        (HOST, "http://evil.example", "application/json", 403),
        (HOST, "http://evil.example", "text/plain", 403),
        (HOST, "null", "text/plain", 403),
        ("evil.example:8321", "http://evil.example:8321", "application/json", 403),
        ("127.0.0.1.evil.example:8321", "http://127.0.0.1.evil.example:8321", "application/json", 403),
        (HOST, "http://localhost.evil.example", "application/json", 403),
        (HOST, "http://127.0.0.1:1", "application/json", 403),
        (HOST, "http://127.0.0.1:8321.evil.example", "application/json", 403),
        (HOST, "http://127.0.0.1:99999", "application/json", 403),
        (HOST, None, "text/plain", 415),
        (HOST, None, "application/x-www-form-urlencoded", 415),
        ("", None, "application/json", 403),
    ],
)
def test_changing_call_is_judged_by_host_origin_and_type(
    client: TestClient, host: str, origin: str | None, kind: str, status: int
) -> None:
    assert post(client, host, origin, kind) == status


def test_stop_without_a_body_needs_no_type(client: TestClient) -> None:
    run = client.post("/api/v1/runs", json={"spec": scripted_spec(), "start": False}).json()
    assert client.post(f"/api/v1/runs/{run['id']}/stop").status_code == 202


def test_body_larger_than_any_spec_is_refused_before_it_is_read(client: TestClient) -> None:
    answer = client.post("/api/v1/runs", content=b" " * (5 << 20), headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_body_of_unknown_length_is_refused_where_it_goes_over_the_limit(client: TestClient) -> None:
    def pieces(count: int) -> Iterator[bytes]:
        yield from (b" " * (1 << 20) for _ in range(count))
        yield b'{"spec": {}}'

    kind = {"content-type": "application/json"}
    assert client.post("/api/v1/runs", content=pieces(5), headers=kind).status_code == 413
    assert client.post("/api/v1/runs", content=pieces(3), headers=kind).status_code == 422


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/v1/runs?q=" + "x" * 9000, 414),
        ("/api/v1/" + "x" * 9000, 414),
        ("/api/v1/runs?" + "&".join(f"a{number}=1" for number in range(101)), 400),
        ("/api/v1/runs?q=" + "x" * 500, 200),
    ],
)
def test_address_larger_than_any_question_is_refused(client: TestClient, address: str, status: int) -> None:
    answer = client.get(address)
    assert answer.status_code == status
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(("mode", "path", "status"), [("no-cors", "/api/v1/runs", 403), ("navigate", "/", 200)])
def test_page_of_another_site_may_link_here_and_ask_nothing(
    client: TestClient, mode: str, path: str, status: int
) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode}
    assert client.get(path, headers=headers).status_code == status


def test_reading_under_another_name_is_refused(client: TestClient) -> None:
    answer = client.get("/api/v1/runs", headers={"host": "rebound.example"})
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "/runs/x", "/api/v1/runs", "/api/v1/nothing", "/api/v1/runs/x"])
def test_every_answer_has_the_headers_that_keep_other_sites_out(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "headers",
    [
        {"host": HOST, "origin": "http://evil.example"},
        {"host": HOST, "origin": "null"},
        {"host": HOST, "sec-fetch-site": "cross-site"},
        {"host": "evil.example:8321", "origin": "http://evil.example:8321"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/stream", "/api/v1/runs/20260101-000000-abcdef/stream"])
def test_handshake_of_another_site_is_403(client: TestClient, path: str, headers: dict[str, str]) -> None:
    with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect(path, headers=headers):
        pass
    assert denied.value.status_code == 403
    assert denied.value.json()["type"] in ("horizon:origin-refused", "horizon:host-refused")


@pytest.mark.parametrize("headers", [{"host": HOST, "origin": "http://127.0.0.1:8321"}, {"host": HOST}])
def test_handshake_of_our_own_page_or_a_script_is_accepted(client: TestClient, headers: dict[str, str]) -> None:
    path = "/api/v1/runs/20260101-000000-abcdef/stream"
    with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect(path, headers=headers) as socket:
        socket.receive_text()
    assert closed.value.code == 4404  # there is no such run


@pytest.mark.parametrize(
    ("bound", "host", "allowed"),
    [
        ("0.0.0.0", "192.168.1.7:8321", True),
        ("0.0.0.0", "evil.example:8321", False),
        ("192.168.1.7", "192.168.1.7:8321", True),
        ("192.168.1.7", "192.168.1.8:8321", False),
        ("station.lan", "STATION.lan", True),
        ("127.0.0.1", "train.example", True),
        ("127.0.0.1", "train.example.evil", False),
    ],
)
async def test_bound_address_decides_which_names_are_ours(bound: str, host: str, allowed: bool) -> None:
    reached: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(_message: Any) -> None:
        return

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host.encode())]}
    await Guard(app, bound_host=bound, allowed_hosts=("train.example",))(scope, receive, send)
    assert bool(reached) is allowed


def test_guard_covers_the_whole_app(app: FastAPI) -> None:
    assert [middleware.cls for middleware in app.user_middleware[:2]] == [RequestLog, Guard]  # it only looks on
