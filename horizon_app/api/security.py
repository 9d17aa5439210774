"""Keeps other sites away from a server without a password: Host, Origin, content type; headers for the browser.

A page of another site can make the browser send requests here. It can't forge `Origin`, and a name of its own that it
points at this machine (DNS rebinding) shows in `Host`.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horizon_app.api.errors import problem_response

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_EVERYWHERE = {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not bound
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_MOST_BODY_BYTES = 4 << 20
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # the chart library sets styles on its elements
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """ASGI middleware: refuses what another site could have sent, and adds the headers."""

    def __init__(self, app: ASGIApp, *, bound_host: str) -> None:
        self._app = app
        self._bound_host = bound_host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        if scope["type"] == "websocket":
            if refusal is not None:
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": refusal[2]})
                return
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if refusal is not None:
            status, name, detail = refusal
            answer = problem_response(status, name, "The request was refused", detail)
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str, str] | None:
        host, port = _split(f"//{headers.get('host', '')}")
        if host is None or not self._is_ours(host):
            return 403, "host-refused", "the Host header names another machine; open the server by its own address"
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        origin = headers.get("origin")
        if changes and origin is not None:
            scheme_port = 443 if origin.startswith("https:") else 80
            origin_host, origin_port = _split(origin)
            same_port = (origin_port or scheme_port) == (port or scheme_port)
            if origin_host is None or not self._is_ours(origin_host) or not same_port:
                return 403, "origin-refused", "the request comes from a page of another site"
        if changes and scope["type"] == "http" and not _is_json_or_empty(headers):
            return 415, "not-json", "a body must be JSON: send the header Content-Type: application/json"
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > _MOST_BODY_BYTES:
            return 413, "body-too-large", f"the body has {length} bytes; {_MOST_BODY_BYTES} are the most"
        return None

    def _is_ours(self, host: str) -> bool:
        if host in _LOOPBACK or host == self._bound_host:
            return True
        if self._bound_host not in _EVERYWHERE:
            return False
        # Bound to every address: a bare address or this machine's name can't be another site's name for us.
        return _is_address(host) or host == socket.gethostname().lower()


def _split(url: str) -> tuple[str | None, int | None]:
    try:
        parts = urlsplit(url)
        return (parts.hostname.lower() if parts.hostname else None), parts.port
    except ValueError:
        return None, None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_json_or_empty(headers: Headers) -> bool:
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (not has_body and kind == "")
