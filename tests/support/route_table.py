"""`python -m tests.support.route_table`: writes the table of routes anew, as the app answers now."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from horizon_app.api.app import create_app
from horizon_app.settings import AppSettings
from tests.support.server import furnish_home

TABLE = Path(__file__).parents[1] / "architecture" / "routes.md"
_TOKEN = "the-token-of-the-table"
_HERE = "127.0.0.1:8321"
_HEAD = """# Every way into the server

Asked of the app itself by `python -m tests.support.route_table`, which writes this file anew. *Token*: 401 without one
where the server needs one. *Origin*: 403 for another site. *JSON only*: 415 for a body of another type. A route that
changes nothing is called by the tests to see that it doesn't.

| method | path | operation | token | Origin | JSON only | takes a body | may change something |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """One way into the server; `method` is WebSocket for a stream."""

    method: str
    path: str
    operation: str
    has_body: bool

    @property
    def address(self) -> str:
        """A path of its kind, of things that are not there."""
        return self.path.replace("{run_id}", "20260101-000000-abcdef").replace("{path:path}", "nothing")


def ways(app: FastAPI) -> list[Way]:
    """All of them, documented or not."""
    found: list[Way] = []
    for route in _flat(app.routes):
        kind = getattr(route, "original_route", route)
        plain = getattr(route, "starlette_route", None) or route
        methods = sorted(set(getattr(kind, "methods", None) or {"WebSocket"}) - {"HEAD"})
        body = getattr(route, "body_field", None) is not None
        found += [Way(method=one, path=plain.path, operation=kind.name, has_body=body) for one in methods]
    return sorted(found, key=lambda way: (way.path, way.method))


def _flat(routes: Sequence[Any]) -> Iterator[Any]:
    for route in routes:
        if hasattr(route, "effective_candidates"):  # a router that was included
            yield from _flat(route.effective_candidates())
        else:
            yield route


def route_table() -> str:
    """The table, by asking a server that needs a token on every route."""
    with tempfile.TemporaryDirectory() as folder:
        settings = AppSettings.model_validate({"home": furnish_home(Path(folder) / "home"), "token": _TOKEN})
        app = create_app(settings)
        with TestClient(app, base_url=f"http://{_HERE}", raise_server_exceptions=False) as client:
            return _HEAD + "".join(_row(client, way) for way in ways(app))


def _row(client: TestClient, way: Way) -> str:
    origin = {"origin": "http://evil.example"}
    token = {"authorization": f"Bearer {_TOKEN}"}
    needs_token = _status(client, way, {}) == 401
    checks_origin = _status(client, way, {**origin, **token}) == 403
    json_only = way.method != "WebSocket" and _status(client, way, {**token, "content-type": "text/plain"}, b"x") == 415
    marks = (needs_token, checks_origin, json_only, way.has_body, way.method not in ("GET", "WebSocket"))
    cells = [way.method, f"`{way.path}`", way.operation, *("yes" if mark else "no" for mark in marks)]
    return f"| {' | '.join(cells)} |\n"


def _status(client: TestClient, way: Way, headers: dict[str, str], body: bytes | None = None) -> int:
    if way.method != "WebSocket":
        return client.request(way.method, way.address, headers=headers, content=body).status_code
    try:
        # One that offers a wrong token, so that the server does not wait for a first text.
        offered = [] if "authorization" in headers else ["horizon.token.wrong"]
        with client.websocket_connect(way.address, subprotocols=offered, headers={"host": _HERE, **headers}) as socket:
            socket.receive()
    except WebSocketDenialResponse as denied:
        return denied.status_code
    except WebSocketDisconnect:
        pass
    return 101


if __name__ == "__main__":
    TABLE.write_text(route_table(), encoding="utf-8")
