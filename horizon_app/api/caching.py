"""What is asked again and has not changed is not sent again: an ETag on every JSON answer to GET, and 304."""

import xxhash
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_JSON = "application/json"


class Etags:
    """ASGI middleware: tags answers below /api, and says how long they may be kept. Streams pass as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or not scope["path"].startswith("/api/"):
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, if_none_match=Headers(scope=scope).get("if-none-match", ""))
        await self._app(scope, receive, answer.tagged if scope["method"] in ("GET", "HEAD") else answer.kept_nowhere)


class _Answer:
    """One answer on its way."""

    def __init__(self, send: Send, *, if_none_match: str) -> None:
        self._send = send
        self._known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
        self._start: Message | None = None

    async def kept_nowhere(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).setdefault("cache-control", "no-store")
        await self._send(message)

    async def tagged(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _can_be_tagged(message):
            self._start = message  # held back until it is known what the answer is
            return
        if message["type"] == "http.response.body" and self._start is not None:
            message = await self._begin(self._start, message)
            self._start = None
        await self.kept_nowhere(message)

    async def _begin(self, start: Message, body: Message) -> Message:
        """Send the beginning of an answer; gives what is left to be sent of it."""
        headers = MutableHeaders(scope=start)
        if not body.get("more_body", False):
            tag = f'"{xxhash.xxh3_128_hexdigest(body["body"])}"'
            headers["etag"] = f"W/{tag}"  # weak: compressed or not, it is the same
            headers.setdefault("cache-control", "private, no-cache")
            if tag in self._known or "*" in self._known:
                for name in ("content-length", "content-type"):
                    del headers[name]
                start, body = {**start, "status": 304}, {**body, "body": b""}
        await self.kept_nowhere(start)
        return body


def _can_be_tagged(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    return start["status"] == 200 and headers.get("content-type") == _JSON and "etag" not in headers
