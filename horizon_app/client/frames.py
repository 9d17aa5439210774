"""A run's text frames, each once and in order, over as many connections as it takes."""

import asyncio
import atexit
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Annotated, Any, Self, get_args

from pydantic import Field, TypeAdapter, ValidationError
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from horizon_app.client.calls import Calls, of_run, read_as
from horizon_app.client.errors import BadAnswer, RequestRefused, ServerFailed, ServerUnreachable, WaitTimeout
from horizon_app.client.transport import Backoff
from horizon_app.contracts.frames import Frame, SnapshotFrame, StateFrame
from horizon_app.contracts.run_state import ENDED
from horizon_app.contracts.run_view import Run

AnyFrame = Frame | SnapshotFrame
_FRAME: TypeAdapter[AnyFrame] = TypeAdapter(Annotated[AnyFrame, Field(discriminator="type")])
_TYPES = sorted(kind.model_fields["type"].default for kind in get_args(get_args(Frame)[0]))
PATIENCE_S = 300.0
"""Seconds without any server before a stream gives up."""
_IDLE_S = 15.0
_POLL_S = 1.0
_PAGE = 1000
_MOST_BYTES = 64 << 20
"""A block layout of a large model is one frame."""
_SERVER_ERRORS = 500
_BAD_QUESTION = 4422


class Frames:
    """The frames of a run, to be iterated with `for` or `async for`; ends when the run has ended.

    It reconnects when the server restarts, asking for what follows `seq`, the last frame that was handed over. Where
    no WebSocket gets through, it asks for the same events over HTTP.
    """

    def __init__(
        self, calls: Calls, run_id: str, *, after: int | None, patience_s: float = PATIENCE_S,
        timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        """`after` None begins with a snapshot of the run; 0 with its first event."""
        self.seq = after
        self._calls = calls
        self._run_id = run_id
        self._patience_s = patience_s
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._end: int | None = None
        self._socket: ClientConnection | None = None
        self._closed = False
        self._frames = self._all()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AnyFrame:
        return next(self._frames)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyFrame:
        try:
            frame = await asyncio.to_thread(next, self._frames, None)
        except asyncio.CancelledError:
            self.close()  # wakes the thread, which is left behind
            raise
        if frame is None:
            raise StopAsyncIteration
        return frame

    def close(self) -> None:
        """End the stream; for any thread."""
        self._closed = True
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _all(self) -> Generator[AnyFrame]:
        source = self._over_socket
        backoff: Backoff | None = None
        while not self._closed:
            try:
                if self._is_over():
                    return
                for frame in source():
                    backoff = None
                    self.seq = frame.seq
                    yield frame
                    if self._ends_with(frame):
                        return
            except WaitTimeout:
                raise
            except InvalidHandshake as error:
                if _means_no_sockets(error):
                    source = self._over_http
                    continue
                why: Exception = error
            except ConnectionClosed as error:
                if error.rcvd is not None and error.rcvd.code == _BAD_QUESTION:
                    raise RequestRefused(error.rcvd.reason) from error
                why = error
            except (ServerUnreachable, ServerFailed, OSError) as error:
                why = error
            else:
                continue
            backoff = backoff or Backoff(min(self._patience_s, self._left()))
            if not self._closed and not backoff.wait():
                raise self._given_up(why) from why

    def _over_socket(self) -> Generator[AnyFrame]:
        with self._open() as socket:
            if self._closed:
                return
            socket.send('{"residency_hz": 0}')
            while True:
                try:
                    message = socket.recv(timeout=max(0.0, min(_IDLE_S, self._left())))
                except TimeoutError:
                    if self._is_over():
                        return
                    continue
                if isinstance(message, str):
                    frame = _read(message)
                    # A frame that was already handed over may only come from a server that counts anew.
                    if self.seq is None or frame.seq > self.seq or isinstance(frame, SnapshotFrame):
                        yield frame

    @contextmanager
    def _open(self) -> Generator[ClientConnection]:
        with self._connect() as socket:
            self._socket = socket
            # A stream that is still referred to when Python ends would be closed after the thread that reads the
            # socket was stopped, and wait for it forever.
            atexit.register(socket.close)
            try:
                yield socket
            finally:
                atexit.unregister(socket.close)

    def _connect(self) -> ClientConnection:
        transport = self._calls.transport
        transport.meet()
        address = f"ws{transport.url.removeprefix('http')}/api/v1{of_run(self._run_id, 'stream')}"
        return connect(
            address if self.seq is None else f"{address}?after={self.seq}",
            # The token goes as a header, which the library takes away where a redirect leads to another server.
            additional_headers=transport.headers,
            proxy=None if transport.is_local else True,
            compression=None if transport.is_local else "deflate",
            open_timeout=min(transport.timeout_s, max(self._left(), 0.1)),
            close_timeout=1.0,
            max_size=_MOST_BYTES,
        )

    def _over_http(self) -> Generator[AnyFrame]:
        if self.seq is None:
            run = self._calls.show(self._run_id)
            yield SnapshotFrame(seq=run.last_seq, time=datetime.now(UTC), run=run)
        while not self._closed and self._left() > 0:
            asked = {"after": self.seq, "types": ",".join(_TYPES), "limit": _PAGE}
            found = self._calls.transport.call("GET", of_run(self._run_id, "events"), params=asked)["events"]
            for document in found:
                yield _read(document)
            if not found:
                if self._is_over():
                    return
                time.sleep(max(0.0, min(_POLL_S, self._left())))

    def _ends_with(self, frame: AnyFrame) -> bool:
        """Whether nothing can follow this frame: the run has ended, and it was the last."""
        if isinstance(frame, SnapshotFrame | StateFrame):
            state = frame.run.state if isinstance(frame, SnapshotFrame) else frame.state
            return state in ENDED and self._is_over()
        return self._end is not None and frame.seq >= self._end and self._is_over()

    def _is_over(self) -> bool:
        """Ask whether the run has ended and all its frames were handed over. Raises HorizonError."""
        if self._left() <= 0:
            raise self._given_up(None)
        run = read_as(Run, self._calls.transport.call("GET", of_run(self._run_id), retry_for_s=0.0))
        self._end = run.last_seq if run.state in ENDED else None
        return self._end is not None and self.seq is not None and self.seq >= self._end

    def _left(self) -> float:
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def _given_up(self, why: Exception | None) -> Exception:
        if self._left() <= 0:
            return WaitTimeout(f"run {self._run_id} has not ended in the time given; it goes on")
        if isinstance(why, ServerUnreachable | ServerFailed):
            return why
        return self._calls.transport.unreachable(f"{why}; tried for {self._patience_s:.0f} s")


def _means_no_sockets(error: InvalidHandshake) -> bool:
    """Whether something in between lets no WebSocket through, or the server's refusal is better told over HTTP."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code < _SERVER_ERRORS
    return not isinstance(error, InvalidMessage)  # what a server says that dies in the middle of its answer


def _read(document: str | dict[str, Any]) -> AnyFrame:
    try:
        if isinstance(document, str):
            return _FRAME.validate_json(document)
        return _FRAME.validate_python(document)
    except ValidationError as error:
        raise BadAnswer(
            f"a frame of the stream can't be read ({error.errors(include_url=False)[0]['msg']}); is the server of "
            "another version?"
        ) from error
