"""WebSockets: one run's events and residency frames, or the changes of all runs. Each viewer reads at its own pace."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from horizon_app.contracts.frames import ResidencyWish, RunFrame, SnapshotFrame
from horizon_app.contracts.run_view import Run
from horizon_app.control.history import History
from horizon_app.control.hub import Viewer
from horizon_app.control.workstation import Workstation

router = APIRouter()
RESIDENCY_HZ = 5.0
OVERVIEW_INTERVAL_S = 0.5
RUN_GONE = 4404
BAD_REQUEST = 4422
"""Close codes of our own: no such run (any more), a question that makes no sense."""


@router.websocket("/runs/{run_id}/stream")
async def stream_run(socket: WebSocket, run_id: str) -> None:
    """One run: what follows `after`, or a snapshot and what follows it."""
    station: Workstation = socket.app.state.workstation
    await socket.accept()
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
        wish = _Wish()
        await _until_one_ends(_listen(socket, wish, viewer), _send_run(socket, viewer, wish))


@router.websocket("/stream")
async def stream_runs(socket: WebSocket) -> None:
    """All runs: each live one first, then each whose state or step changed."""
    station: Workstation = socket.app.state.workstation
    await socket.accept()
    await _until_one_ends(_drain(socket), _send_overview(socket, station))


class _Wish:
    """How often a viewer wants residency frames."""

    def __init__(self) -> None:
        self.interval_s: float | None = 1.0 / RESIDENCY_HZ


async def _listen(socket: WebSocket, wish: _Wish, viewer: Viewer) -> None:
    while True:
        text = await socket.receive_text()
        with contextlib.suppress(ValidationError):  # what is not understood changes nothing
            hertz = ResidencyWish.model_validate_json(text).residency_hz
            wish.interval_s = 1.0 / hertz if hertz > 0 else None
            viewer.wake()


async def _drain(socket: WebSocket) -> None:
    while True:
        await socket.receive()


async def _send_run(socket: WebSocket, viewer: Viewer, wish: _Wish) -> None:
    next_frame_at = 0.0
    while True:
        while texts := await viewer.texts():
            for text in texts:
                await socket.send_text(text)
        pause = None
        if wish.interval_s is not None and viewer.has_frame():
            pause = next_frame_at - time.monotonic()
            if pause <= 0:
                await socket.send_bytes(viewer.take_frame())
                next_frame_at = time.monotonic() + wish.interval_s
                continue
        await viewer.wait(pause)


async def _send_overview(socket: WebSocket, station: Workstation) -> None:
    sent: dict[str, Run] = {}
    with station.hub.overview() as overview:
        for run in await asyncio.to_thread(station.history.live):
            sent[run.id] = run
            await socket.send_text(RunFrame(run=run).model_dump_json())
        while True:
            for run_id in await overview.changed():
                run = await _changed(station.history, run_id, sent)
                if run is not None:
                    await socket.send_text(RunFrame(run=run).model_dump_json())
            await asyncio.sleep(OVERVIEW_INTERVAL_S)


async def _changed(history: History, run_id: str, sent: dict[str, Run]) -> Run | None:
    run = await asyncio.to_thread(history.summary, run_id)
    if run is None or run == sent.get(run_id):
        return None
    sent[run_id] = run
    return run


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
    if not text.isdecimal():
        raise ValueError("after is not a whole number from 0")
    return int(text)
