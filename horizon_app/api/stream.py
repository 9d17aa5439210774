"""WebSockets: one run's events and residency frames, or the changes of all runs. Each viewer reads at its own pace."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from horizon_app.api.patient_socket import WRAPPED
from horizon_app.api.seats import Allowance, Seats
from horizon_app.contracts.frames import ResidencyWish, SnapshotFrame
from horizon_app.control.hub import Viewer
from horizon_app.control.workstation import Workstation

router = APIRouter()
RESIDENCY_HZ = 5.0
_EARLY = 0.25
"""The part of its interval that a residency frame may come early, or late, to go along with text frames."""
_TOGETHER_BYTES = 64 << 10
TOO_MANY_MESSAGES = 1008
NO_SEAT = 1013
"""The standard's codes for who breaks the rules, and for who should come again later."""
RUN_GONE = 4404
BAD_REQUEST = 4422
"""Close codes of our own: no such run (any more), a question that makes no sense."""


@router.websocket("/runs/{run_id}/stream")
async def stream_run(socket: WebSocket, run_id: str) -> None:
    """One run: what follows `after`, or a snapshot and what follows it."""
    station: Workstation = socket.app.state.workstation
    async with _seated(socket) as seated:
        if not seated:
            return
        try:
            after = _after(socket.query_params.get("after"))
        except ValueError as error:
            await socket.close(BAD_REQUEST, str(error))
            return
        run = await asyncio.to_thread(station.history.summary, run_id)
        if run is None:
            await socket.close(RUN_GONE, "no such run")
            return
        if after is None or after > run.last_seq:  # the latter comes from a viewer of another history
            after = run.last_seq
            snapshot = SnapshotFrame(seq=run.last_seq, time=datetime.now(UTC), run=run)
            await socket.send_text(snapshot.model_dump_json())
        with station.hub.view(run_id, after=after, last_seq=run.last_seq) as viewer:
            wish = _Wish(viewer)
            await _until_one_ends(_listen(socket, wish.heed), _send_run(socket, viewer, wish))


@router.websocket("/stream")
async def stream_runs(socket: WebSocket) -> None:
    """All runs: each live one and each that changed since `since` first, then each whose state or step changes."""
    station: Workstation = socket.app.state.workstation
    async with _seated(socket) as seated:
        if not seated:
            return
        try:
            since = _since(socket.query_params.get("since"))
        except ValueError as error:
            await socket.close(BAD_REQUEST, str(error))
            return
        await _until_one_ends(_listen(socket, lambda _: None), _send_overview(socket, station, since))


@contextlib.asynccontextmanager
async def _seated(socket: WebSocket) -> AsyncGenerator[bool]:
    """Take the socket on, where there is a seat; else close it and say so. A viewer that leaves early is no error."""
    seats: Seats = socket.app.state.seats
    with seats.one() as seated, contextlib.suppress(WebSocketDisconnect):
        await socket.accept()
        if not seated:
            await socket.close(NO_SEAT, f"{seats.most} streams are open (HORIZON_MAX_STREAMS); try again later")
        yield seated


class _Wish:
    """How often a viewer wants residency frames, and when the next one is due."""

    def __init__(self, viewer: Viewer) -> None:
        self._interval_s: float | None = 1.0 / RESIDENCY_HZ
        self._due_at = 0.0
        self._viewer = viewer

    def heed(self, text: str) -> None:
        """Take what the viewer says; what is not understood changes nothing."""
        with contextlib.suppress(ValidationError):
            hertz = ResidencyWish.model_validate_json(text).residency_hz
            self._interval_s = 1.0 / hertz if hertz > 0 else None
            self._viewer.wake()

    def take_frame(self) -> bytes | None:
        """The newest residency frame where it is due, or so nearly that it goes along with what is sent now."""
        now = time.monotonic()
        if self._interval_s is None or not self._viewer.has_frame() or now < self._due_at - _EARLY * self._interval_s:
            return None
        self._due_at = max(self._due_at, now) + self._interval_s
        return self._viewer.take_frame()

    def rest_s(self) -> float | None:
        """How long the viewer waits at most for news to come before a residency frame is sent alone."""
        if self._interval_s is None or not self._viewer.has_frame():
            return None
        return max(0.0, self._due_at - time.monotonic()) + _EARLY * self._interval_s


async def _listen(socket: WebSocket, heed: Callable[[str], None]) -> None:
    """Hand over each text until the viewer leaves, or sends more than anybody needs to."""
    allowance = Allowance()
    while (message := await socket.receive())["type"] != "websocket.disconnect":
        if not allowance.spend():
            await socket.close(TOO_MANY_MESSAGES, f"more than {allowance.PER_S:g} messages a second")
            return
        text = message.get("text")
        if text is not None:
            heed(text)


async def _send_run(socket: WebSocket, viewer: Viewer, wish: _Wish) -> None:
    while not viewer.run_gone:
        frames = await viewer.texts()
        frame = wish.take_frame()
        await _send(socket, frames if frame is None else [*frames, frame])
        if not frames:
            await viewer.wait(wish.rest_s())
    await socket.close(RUN_GONE, "the run was deleted")


async def _send_overview(socket: WebSocket, station: Workstation, since: datetime | None) -> None:
    with station.overview.view() as viewer:
        await _send(socket, await viewer.current(since))
        while True:
            await _send(socket, await viewer.changes())


async def _send(socket: WebSocket, frames: Sequence[bytes]) -> None:
    """Send wrapped frames, as many at once as are small: each write is a call into the kernel."""
    size, together = 0, list[bytes]()
    for frame in frames:
        if together and size + len(frame) > _TOGETHER_BYTES:
            await socket.send({"type": "websocket.send", WRAPPED: b"".join(together)})
            size, together = 0, []
        together.append(frame)
        size += len(frame)
    if together:
        await socket.send({"type": "websocket.send", WRAPPED: b"".join(together)})


async def _until_one_ends(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the two directions of a socket; when one ends, because the viewer has gone or fails, so does the other."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        # A viewer that leaves in the middle of a send is no error.
        if isinstance(result, Exception) and not isinstance(result, WebSocketDisconnect | RuntimeError):
            raise result


def _after(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_SEQ):
        raise ValueError("after is not a whole number from 0")
    return int(text)


def _since(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("since is no time such as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_LONGEST_SEQ = 18
