"""Keeps other sites away from the server: Host, Origin, content type, long addresses; headers for the browser.

A page of another site can make the browser send requests here. It can't forge `Origin`, and a name of its own that it
points at this machine (DNS rebinding) shows in `Host`.
"""

import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horizon_app.api.errors import problem_response
from horizon_app.contracts.problems import FieldProblem

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_EVERYWHERE = {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not bound
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
MOST_ADDRESS_BYTES = 8 << 10
"""Of the path, and of the query."""
MOST_PARAMETERS = 100


def content_policy(style: str = "") -> str:
    """What a page of ours may load; `style` is the hash of a style sheet that stands in the page itself."""
    return "; ".join(
        (
            "default-src 'self'",
            "script-src 'self'",
            f"style-src 'self' {style}".rstrip(),
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )


_HEADERS = {
    "content-security-policy": content_policy(),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Status, stable name, what is wrong and what to do; and the field that it is about, where it is one."""

    status: int
    name: str
    detail: str
    field: str = ""


class Guard:
    """ASGI middleware: refuses what another site could have sent and too long addresses, and adds the headers."""

    def __init__(self, app: ASGIApp, *, bound_host: str, allowed_hosts: Collection[str] = ()) -> None:
        self._app = app
        self._bound_host = bound_host.lower()
        self._allowed = frozenset(allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._stranger(scope, headers) or _unreadable(scope)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
            return
        errors = [FieldProblem(field=refusal.field, message=refusal.detail)] if refusal.field else []
        answer = problem_response(refusal.status, refusal.name, "The request was refused", refusal.detail, errors)
        await answer(scope, receive, send_with_headers)

    def _stranger(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Why this may come from another site."""
        host, port = _split(f"//{headers.get('host', '')}")
        if host is None or not self._is_ours(host):
            detail = "the Host header names another machine; open the server by its own address, or allow that name "
            return Refusal(403, "host-refused", f"{detail}with HORIZON_ALLOWED_HOSTS")
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        origin = headers.get("origin")
        if changes and origin is not None:
            scheme_port = 443 if origin.startswith("https:") else 80
            origin_host, origin_port = _split(origin)
            same_port = (origin_port or scheme_port) == (port or scheme_port)
            if origin_host is None or not self._is_ours(origin_host) or not same_port:
                return Refusal(403, "origin-refused", "the request comes from a page of another site")
        if headers.get("sec-fetch-site") == "cross-site" and (changes or headers.get("sec-fetch-mode") != "navigate"):
            return Refusal(403, "origin-refused", "the request comes from a page of another site")
        if changes and scope["type"] == "http" and not _is_json_or_empty(headers):
            return Refusal(415, "not-json", "a body must be JSON: send the header Content-Type: application/json")
        return None

    def _is_ours(self, host: str) -> bool:
        if host in _LOOPBACK or host == self._bound_host or host in self._allowed:
            return True
        if self._bound_host not in _EVERYWHERE:
            return False
        # Bound to every address: a bare address or this machine's name can't be another site's name for us.
        return _is_address(host) or host == socket.gethostname().lower()


def _unreadable(scope: Scope) -> Refusal | None:
    """What is wrong with an address, whatever it names."""
    query: bytes = scope.get("query_string", b"")
    if max(len(query), len(scope["path"])) > MOST_ADDRESS_BYTES:
        return Refusal(414, "address-too-long", f"path and query may have {MOST_ADDRESS_BYTES} bytes each")
    if query.count(b"&") >= MOST_PARAMETERS:
        return Refusal(400, "too-many-parameters", f"the query may have {MOST_PARAMETERS} parameters")
    if "\0" in scope["path"]:
        return Refusal(400, "nul-character", "the address holds a NUL character; nothing has one in its name")
    for field, value in parse_qsl(query.decode("latin-1")) if b"%00" in query else []:
        if "\0" in field + value:
            return Refusal(422, "request-invalid", "holds a NUL character, which nothing does", field)
    return None


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
