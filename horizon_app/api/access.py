"""Asks for the token where the server needs one: in the header `Authorization`, a socket's handshake or its first text.

A browser can't set headers on a WebSocket, so the token may come as the subprotocol `horizon.token.TOKEN` beside
`horizon`, which is the one that is answered. Never in an address: addresses are written down everywhere.
"""

import asyncio
import hashlib
import json
from time import monotonic as _now
from typing import Any, cast

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horizon_app.api.errors import problem_response
from horizon_app.control.access import Access

OPEN_PATHS = frozenset({"/api/v1/healthz"})
"""Below /api and yet for everybody. What is not below /api are pages, which hold nothing of this machine."""
SUBPROTOCOL = "horizon"
TOKEN_MISSING = 4401
"""Close code of a socket whose first text was no right token."""
_FIRST_TEXT_WITHIN_S = 10.0
_LONGEST_TOKEN = 512


def asks_for_token(path: str) -> bool:
    """Whether a path is closed to those without a token."""
    return (path == "/api" or path.startswith("/api/")) and path not in OPEN_PATHS


class Tries:
    """Counts different wrong tokens of each address: who guesses has to wait, who repeats an old one has not."""

    MOST = 10
    WINDOW_S = 60.0
    _MOST_ADDRESSES = 1000

    def __init__(self) -> None:
        self._wrong: dict[str, dict[bytes, float]] = {}

    def wait_s(self, address: str) -> float:
        """Seconds until an address may try again; 0 where it may now."""
        now = _now()
        wrong = self._wrong.get(address, {})
        for digest in [digest for digest, tried_at in wrong.items() if now - tried_at > self.WINDOW_S]:
            del wrong[digest]
        return 0.0 if len(wrong) < self.MOST else min(wrong.values()) + self.WINDOW_S - now

    def note(self, address: str, token: str) -> None:
        """Remember a wrong token."""
        if address not in self._wrong and len(self._wrong) >= self._MOST_ADDRESSES:
            del self._wrong[next(iter(self._wrong))]
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        self._wrong.setdefault(address, {}).setdefault(digest, _now())


class TokenGate:
    """ASGI middleware: lets nobody below /api without the token, where the server needs one."""

    def __init__(self, app: ASGIApp, *, access: Access) -> None:
        self._app = app
        self._access = access
        self._tries = Tries()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        token = _bearer(scope)
        if scope["type"] == "websocket":
            token, send = _take_subprotocol(scope, send, token)
        if not self._access.needs_token or not asks_for_token(scope["path"]):
            await self._app(scope, receive, send)
            return
        if token is None and scope["type"] == "websocket":
            await self._after_first_text(scope, receive, send)
            return
        refusal = self._refusal(scope, token)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, detail, headers = refusal
        name, title = ("token-needed", "A token is needed") if status == 401 else ("too-many-tries", "Too many tries")
        await problem_response(status, name, title, detail, headers=headers)(scope, receive, send)

    def _refusal(self, scope: Scope, token: str | None) -> tuple[int, str, dict[str, str]] | None:
        """Status, words and headers of a refusal; None where the token is right."""
        address = scope["client"][0] if scope.get("client") else ""
        if token is None:
            detail = "send the header Authorization: Bearer TOKEN; the server printed the token when it was made"
            return 401, detail, {"www-authenticate": 'Bearer realm="Horizon"'}
        wait_s = self._tries.wait_s(address)
        if wait_s > 0:
            detail = f"{Tries.MOST} different wrong tokens came from {address}; wait {wait_s:.0f} s"
            return 429, detail, {"retry-after": str(int(wait_s) + 1)}
        if len(token) <= _LONGEST_TOKEN and self._access.admits(token):
            return None
        self._tries.note(address, token[: _LONGEST_TOKEN + 1])
        detail = "the token is not the right one; `horizon token new` on the server's machine makes another"
        return 401, detail, {"www-authenticate": 'Bearer realm="Horizon", error="invalid_token"'}

    async def _after_first_text(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a socket, wait for its token, and only then let the app see it."""
        connect = await receive()
        await send({"type": "websocket.accept"})
        try:
            first = await asyncio.wait_for(receive(), _FIRST_TEXT_WITHIN_S)
        except TimeoutError:
            first = {"type": "websocket.receive"}
        if first["type"] == "websocket.disconnect":
            return
        refusal = self._refusal(scope, _token_of(first.get("text")))
        if refusal is not None:
            status, detail, _ = refusal
            reason = 'the first text must be {"token": "..."}' if status == 401 else detail
            await send({"type": "websocket.close", "code": TOKEN_MISSING, "reason": reason})
            return
        pending = [connect]

        async def receive_again() -> Message:
            return pending.pop() if pending else await receive()

        async def send_but_accept(message: Message) -> None:
            if message["type"] != "websocket.accept":
                await send(message)

        await self._app(scope, receive_again, send_but_accept)


def _bearer(scope: Scope) -> str | None:
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _take_subprotocol(scope: Scope, send: Send, token: str | None) -> tuple[str | None, Send]:
    """The token out of a handshake, of which nothing is left behind; and `send` that answers the subprotocol."""
    offered: list[str] = scope.get("subprotocols", [])
    marked = next((one for one in offered if one.startswith(f"{SUBPROTOCOL}.token.")), None)
    scope["subprotocols"] = [one for one in offered if one == SUBPROTOCOL]
    scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != b"sec-websocket-protocol"]
    if marked is not None:
        token = marked.removeprefix(f"{SUBPROTOCOL}.token.")
    if SUBPROTOCOL not in offered:
        return token, send

    async def send_with_subprotocol(message: Message) -> None:
        # Browsers drop a connection whose offers were not answered.
        answered = {**message, "subprotocol": SUBPROTOCOL} if message["type"] == "websocket.accept" else message
        await send(answered)

    return token, send_with_subprotocol


def _token_of(text: object) -> str | None:
    """The token in a socket's first text."""
    if not isinstance(text, str) or len(text) > 2 * _LONGEST_TOKEN:
        return None
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    token = cast(dict[str, Any], content).get("token") if isinstance(content, dict) else None
    return token if isinstance(token, str) else None
