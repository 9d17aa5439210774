"""Calls over HTTP. A call that fails on the way is made again only where that can't do anything twice."""

import os
import random
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from horizon_app.client.errors import BadAnswer, HorizonError, ServerUnreachable, error_of
from horizon_app.client.introduction import Introduction

DEFAULT_URL = "http://127.0.0.1:8321"
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_BUSY = 503
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Backoff:
    """Pauses that grow, with jitter, until the time for new attempts is over."""

    def __init__(self, for_s: float) -> None:
        self._until = time.monotonic() + for_s
        self._pause_s = _FIRST_PAUSE_S

    def wait(self, at_least_s: float = 0.0) -> bool:
        """Sleep before another attempt; false, at once, where there is no time left for one."""
        pause = max(at_least_s, self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads clients, no secret
        if time.monotonic() + pause > self._until:
            return False
        time.sleep(pause)
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
        return True


class Transport:
    """The way to one server: its address, the token, and how long a call is tried for."""

    def __init__(
        self, url: str | None, token: str | None, *, timeout_s: float, retry_for_s: float, name: str,
        http: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        """`url` and `token` come from HORIZON_URL and HORIZON_TOKEN where they are None. Raises HorizonError."""
        self.url = _checked(url or os.environ.get("HORIZON_URL") or DEFAULT_URL)
        self.token = token or os.environ.get("HORIZON_TOKEN") or None
        self.timeout_s = timeout_s
        self.retry_for_s = retry_for_s
        self.name = name
        self.is_local = urlsplit(self.url).hostname in _LOOPBACK
        self.headers = {"Horizon-Client": name}
        """What every request to this server carries."""
        options: dict[str, Any] = {
            "headers": self.headers, "timeout": timeout_s, "transport": http,
            "trust_env": not self.is_local,  # a proxy for the web is none for this machine
            "verify": self.url.startswith("https:"),  # reading the certificates takes longer than most calls
        }  # fmt: skip
        self._http = httpx.Client(base_url=f"{self.url}/api/v1", **options)
        self._introduction: Introduction | None = None
        if self.token and http is None:  # whoever brings a way of their own knows where it leads
            self._introduction = Introduction(self.token, self.url, **options)
        elif self.token:
            self._carry_token()

    def call(
        self, method: str, path: str, *, repeatable: bool | None = None, headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None, json: Any = None, timeout_s: float | None = None,
        retry_for_s: float | None = None,
    ) -> Any:  # fmt: skip
        """The decoded answer of a route below /api/v1. Raises HorizonError.

        `repeatable` says that doing it twice is doing it once; reading always is.
        """
        request = self._http.build_request(
            method, path, headers=dict(headers or {}), json=json, timeout=timeout_s or self.timeout_s,
            params={key: value for key, value in (params or {}).items() if value is not None},
        )  # fmt: skip
        repeatable = method == "GET" if repeatable is None else repeatable
        answer = self._send(request, repeatable, self.retry_for_s if retry_for_s is None else retry_for_s)
        if not answer.is_success:
            raise error_of(answer)
        try:
            return answer.json()
        except ValueError as error:
            raise BadAnswer(
                f"{path} of {self.url} answered something that is not JSON; is it a Horizon server?"
            ) from error

    def download(self, path: str, target: Path, *, params: Mapping[str, Any]) -> None:
        """Write the body of an answer to a new file, piece by piece. Raises HorizonError, FileExistsError, OSError."""
        with target.open("xb") as file:
            try:
                for part in self.parts(path, params=params):
                    file.write(part)
            except BaseException:
                target.unlink()  # half a file looks like a whole one
                raise

    def parts(self, path: str, *, params: Mapping[str, Any]) -> Generator[bytes]:
        """The body of an answer, piece by piece. Raises HorizonError."""
        try:
            self._introduce()
            told = {"trace": self._watch}
            with self._http.stream(
                "GET", path, params=dict(params), timeout=self.timeout_s, headers=self.headers, extensions=told
            ) as answer:
                if not answer.is_success:
                    answer.read()
                    raise error_of(answer)
                yield from answer.iter_bytes()
        except httpx.TransportError as error:
            raise self._unreachable(error, repeatable=True) from error

    def meet(self) -> None:
        """Be sure who is there, before others send `headers` over a connection of theirs. Raises HorizonError."""
        try:
            self._meet()
        except httpx.ConnectError as error:
            raise self.unreachable(error) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
        if self._introduction is not None:
            self._introduction.close()

    def unreachable(self, why: object) -> ServerUnreachable:
        """That nobody answers."""
        return ServerUnreachable(
            f"no server answers at {self.url} ({why}); start one with `horizon serve`, or give another address"
        )

    def _introduce(self) -> None:
        """Find out whether the server wants the token at all, once."""
        if "Authorization" not in self.headers:
            self._meet()

    def _meet(self) -> None:
        introduction = self._introduction
        if introduction is None:
            return
        if introduction.token_is_wanted():
            self._carry_token()
        else:
            introduction.close()
            self._introduction = None

    def _carry_token(self) -> None:
        self.headers["Authorization"] = f"Bearer {self.token}"

    def _watch(self, moment: str, facts: Mapping[str, Any]) -> None:
        """Told by the connections of what they do: who is at the end of a new one is asked before anything is sent."""
        if moment != "connection.connect_tcp.complete":
            return
        try:
            self._meet()
        except BaseException:
            facts["return_value"].close()
            raise

    def _send(self, request: httpx.Request, repeatable: bool, retry_for_s: float) -> httpx.Response:
        backoff = Backoff(retry_for_s)
        request.extensions["trace"] = self._watch
        while True:
            pause_s = 0.0
            try:
                self._introduce()
                if "Authorization" in self.headers:
                    request.headers["Authorization"] = self.headers["Authorization"]
                answer = self._http.send(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # it has not even been asked
                if not backoff.wait():
                    raise self._unreachable(error, repeatable=True) from error
                continue
            except httpx.TransportError as error:
                if not repeatable or not backoff.wait():
                    raise self._unreachable(error, repeatable=repeatable) from error
                continue
            if answer.status_code == _BUSY and repeatable:
                pause_s = _retry_after(answer)
            if answer.status_code != _BUSY or not repeatable or not backoff.wait(pause_s):
                return answer

    def _unreachable(self, error: httpx.TransportError, *, repeatable: bool) -> ServerUnreachable:
        why = str(error) or type(error).__name__
        if repeatable:
            return self.unreachable(why)
        return ServerUnreachable(
            f"the server at {self.url} went away before it answered ({why}); it may have done what was asked: look "
            "before you ask again"
        )


def _retry_after(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), _LONGEST_PAUSE_S) if text.isdecimal() else 0.0


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        raise HorizonError(f"{url!r} is no address of a server; write it as {DEFAULT_URL}")
    return url.rstrip("/")
