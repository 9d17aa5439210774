"""Streams of a real server: replay across a restart, slow viewers, residency frames, the stream over all runs."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from horizon_app.contracts.frames import FRAME
from horizon_app.contracts.residency import decode_frame
from tests.support.server import ServerProcess, furnish_home
from tests.support.viewer_crowd import ViewerCrowd


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, database_setting: Callable[[], dict[str, str]]
) -> Iterator[ServerProcess]:
    """One server for the tests that let it live."""
    with ServerProcess(furnish_home(tmp_path_factory.mktemp("shared") / "home"), **database_setting()) as process:
        yield process


@pytest.fixture
def mortal(tmp_path: Path, database_setting: Callable[[], dict[str, str]]) -> Iterator[ServerProcess]:
    """A server for one test."""
    with ServerProcess(furnish_home(tmp_path / "home"), **database_setting()) as process:
        yield process


async def read_until_ended(socket: ClientConnection) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Text and binary frames until the run's final state."""
    texts: list[dict[str, Any]] = []
    frames: list[bytes] = []
    async with asyncio.timeout(40):
        async for message in socket:
            if isinstance(message, bytes):
                frames.append(message)
                continue
            texts.append(json.loads(message))
            if texts[-1]["type"] == "state" and texts[-1]["state"] in ("finished", "stopped", "interrupted", "failed"):
                break
    return texts, frames


def strip(texts: list[dict[str, Any]]) -> list[int]:
    return [text["seq"] for text in texts]


async def test_stream_from_the_start_gives_every_event_once_in_order(server: ServerProcess) -> None:
    run_id = await asyncio.to_thread(server.submit, 10_000, step_s=0.03)
    async with connect(server.stream_url(run_id, after=0)) as socket:
        await asyncio.to_thread(server.wait_step, run_id, 20)
        await asyncio.to_thread(server.post, f"/runs/{run_id}/stop")
        texts, frames = await read_until_ended(socket)
    assert strip(texts) == list(range(1, len(texts) + 1))
    assert texts == await asyncio.to_thread(server.all_events, run_id)
    for text in texts:
        FRAME.validate_python(text)
    assert frames
    assert [decode_frame(frame)[0].step for frame in frames] == sorted(decode_frame(frame)[0].step for frame in frames)


async def test_stream_without_after_begins_with_a_snapshot_and_goes_on_behind_it(server: ServerProcess) -> None:
    run_id = await asyncio.to_thread(server.submit, 10_000, step_s=0.03)
    await asyncio.to_thread(server.wait_step, run_id, 3)
    async with connect(server.stream_url(run_id)) as socket:
        await asyncio.to_thread(server.post, f"/runs/{run_id}/stop")
        texts, _ = await read_until_ended(socket)
    assert texts[0]["type"] == "snapshot"
    assert texts[0]["run"]["id"] == run_id and texts[0]["run"]["last_seq"] == texts[0]["seq"]
    first = texts[0]["seq"]
    assert strip(texts[1:]) == list(range(first + 1, first + len(texts)))


async def test_stream_replayed_after_a_server_kill_has_no_gap_and_no_double(mortal: ServerProcess) -> None:
    run_id = await asyncio.to_thread(mortal.submit, 120, step_s=0.04)
    seen: list[int] = []
    async with connect(mortal.stream_url(run_id, after=0)) as socket:
        while len(seen) < 12:
            message = await asyncio.wait_for(socket.recv(), 20)
            if isinstance(message, str):
                seen.append(json.loads(message)["seq"])
        await asyncio.to_thread(mortal.end, signal.SIGKILL)
    await asyncio.to_thread(mortal.start)
    async with connect(mortal.stream_url(run_id, after=seen[-1])) as socket:
        texts, _ = await read_until_ended(socket)
    assert seen + strip(texts) == list(range(1, len(seen) + len(texts) + 1))
    steps = [text["step"] for text in await asyncio.to_thread(mortal.all_events, run_id) if text["type"] == "metrics"]
    assert steps == list(range(1, 121))


async def test_viewer_that_does_not_read_holds_nobody_up_and_misses_no_text(server: ServerProcess) -> None:
    run_id = await asyncio.to_thread(server.submit, 300, step_s=0.001, log_bytes=40_000)
    async with connect(server.stream_url(run_id, after=0), max_queue=1, close_timeout=1) as slow:
        async with connect(server.stream_url(run_id, after=0)) as quick:
            texts, _ = await read_until_ended(quick)
        late, _ = await read_until_ended(slow)
    assert strip(texts) == list(range(1, len(texts) + 1))
    assert late == texts


def test_crowd_of_viewers_sees_every_frame_in_order(server: ServerProcess) -> None:
    run_id = server.submit(100_000, step_s=0.02)
    server.wait_step(run_id, 2)
    with ViewerCrowd(server.stream_url(run_id), 40) as crowd:
        begun_at = server.get(f"/runs/{run_id}")["step"]
        server.wait_step(run_id, begun_at + 50)
        seen = crowd.leave()
    server.post(f"/runs/{run_id}/stop")
    assert (seen.viewers, seen.out_of_order) == (40, 0)
    assert seen.texts >= 40 * 45
    server.wait_state(run_id, "stopped")


async def test_stream_after_a_place_that_is_not_reached_yet_begins_with_a_snapshot(server: ServerProcess) -> None:
    run_id = await asyncio.to_thread(server.submit, 3)
    await asyncio.to_thread(server.wait_state, run_id, "finished")
    async with connect(server.stream_url(run_id, after=100_000)) as socket:
        assert json.loads(await asyncio.wait_for(socket.recv(), 10))["type"] == "snapshot"


async def test_viewer_that_asks_for_no_residency_gets_none(server: ServerProcess) -> None:
    run_id = await asyncio.to_thread(server.submit, 60, step_s=0.03)
    async with connect(server.stream_url(run_id, after=0)) as socket:
        await socket.send("not a wish")
        await socket.send(json.dumps({"residency_hz": 0}))
        _, frames = await read_until_ended(socket)
    assert len(frames) <= 2


async def test_worker_killed_is_told_to_the_viewers(server: ServerProcess) -> None:
    run_id = await asyncio.to_thread(server.submit, 1000, die_at=5)
    async with connect(server.stream_url(run_id, after=0)) as socket:
        texts, _ = await read_until_ended(socket)
    assert texts[-1]["state"] == "interrupted"
    assert "SIGKILL" in texts[-1]["reason"]


async def test_stream_of_an_unknown_run_is_closed_with_a_code_of_its_own(server: ServerProcess) -> None:
    async with connect(server.stream_url("20260101-000000-abcdef")) as socket:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), 10)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4404


async def test_stream_with_a_bad_after_is_closed_with_a_code_of_its_own(server: ServerProcess) -> None:
    async with connect(server.stream_url("20260101-000000-abcdef") + "?after=-3") as socket:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), 10)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4422


async def test_handshake_with_a_foreign_origin_is_refused_with_403(server: ServerProcess) -> None:
    run_id = await asyncio.to_thread(server.submit, 2)
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with connect(server.stream_url(run_id), origin=websockets.Origin("http://evil.example")):
            raise AssertionError("the handshake went through")
    assert refused.value.response.status_code == 403


async def test_overview_tells_of_each_change_of_state_and_of_steps(server: ServerProcess) -> None:
    first = await asyncio.to_thread(server.submit, 1000, step_s=0.05)
    await asyncio.to_thread(server.wait_step, first, 1)
    base = server.url.replace("http://", "ws://")
    async with connect(f"{base}/api/v1/stream") as socket, asyncio.timeout(30):
        opening = json.loads(await socket.recv())
        assert opening["type"] == "run" and opening["run"]["id"] == first
        steps = {opening["run"]["step"]}
        while len(steps) < 4:
            run = json.loads(await socket.recv())["run"]
            steps |= {run["step"]} if run["id"] == first else set()
        second = await asyncio.to_thread(server.submit, 3)
        await asyncio.to_thread(server.post, f"/runs/{first}/stop")
        last: dict[str, str] = {}
        while (last.get(first), last.get(second)) != ("stopped", "finished"):
            run = json.loads(await socket.recv())["run"]
            last[run["id"]] = run["state"]


async def test_server_ended_while_viewers_look_on_goes_quickly_and_tells_them(mortal: ServerProcess) -> None:
    run_id = await asyncio.to_thread(mortal.submit, 1000, step_s=0.05)
    async with connect(mortal.stream_url(run_id, after=0)) as socket:
        await asyncio.wait_for(socket.recv(), 10)
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(mortal.end, signal.SIGTERM) == 0
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    await socket.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
    await asyncio.to_thread(mortal.start)
    await asyncio.to_thread(mortal.post, f"/runs/{run_id}/stop")
    await asyncio.to_thread(mortal.wait_state, run_id, "stopped")
