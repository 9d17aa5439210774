"""Logs requests that fail or take long: method, path without the query, status, milliseconds."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horizon_app.logs import fields

_log = logging.getLogger(__name__)
SLOW_S = 1.0
_FAILED = 500


class RequestLog:
    """ASGI middleware. A request is slow by the time to the first byte: a download may take as long as it wants."""

    def __init__(self, app: ASGIApp, *, slow_s: float = SLOW_S) -> None:
        self._app = app
        self._slow_s = slow_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note how it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, message["status"], time.perf_counter() - began)
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        # Only to tell it with its trace: whoever answers it as a problem is further out.
        except Exception:
            _log.exception("request failed", extra=_facts(scope, _FAILED, time.perf_counter() - began))
            raise

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        if status >= _FAILED:
            _log.error("request failed", extra=_facts(scope, status, seconds))
        elif seconds >= self._slow_s:
            _log.warning("slow request", extra=_facts(scope, status, seconds))


def _facts(scope: Scope, status: int, seconds: float) -> dict[str, object]:
    return fields(method=scope["method"], path=scope["path"], status=status, ms=round(seconds * 1000, 1))
