"""What people reported of live views: gaps and doubles after the line broke (E08)."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from tests.support.raw_viewer import TEXT, RawViewer
from tests.support.server import ServerProcess, furnish_home


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(furnish_home(tmp_path / "home")) as process:
        yield process


def take_steps(url: str, steps: int) -> tuple[list[int], int]:
    """Steps of `metrics` frames until there are so many, and the last number seen; the line then breaks for good."""
    found: list[int] = []
    with RawViewer(url) as viewer:
        for opcode, content in viewer.frames():
            if opcode == TEXT:
                frame = json.loads(content)
                found += [frame["step"]] if frame["type"] == "metrics" else []
                if len(found) == steps:
                    viewer.vanish()
                    return found, frame["seq"]
    raise AssertionError(f"the server ended the connection after {found}")


async def take_the_rest(url: str) -> list[int]:
    found: list[int] = []
    async with connect(url) as socket, asyncio.timeout(60):
        async for message in socket:
            frame = json.loads(message) if isinstance(message, str) else {}
            found += [frame["step"]] if frame.get("type") == "metrics" else []
            if frame.get("type") == "state" and frame["state"] == "finished":
                break
    return found


@pytest.mark.parametrize("restarted", [False, True], ids=["same server", "server killed between"])
def test_e08_steps_after_the_line_broke_have_no_gap_and_no_double(server: ServerProcess, restarted: bool) -> None:
    run_id = server.submit(80, step_s=0.03)
    first, last_seq = take_steps(server.stream_url(run_id, after=0), 20)
    if restarted:
        server.end(signal.SIGKILL)
        server.start()
    server.wait_step(run_id, 40)  # twenty steps go by unseen
    rest = asyncio.run(take_the_rest(server.stream_url(run_id, after=last_seq)))
    assert first + rest == list(range(1, 81))
    recorded = server.get(f"/runs/{run_id}/metrics", keys="train/loss")["series"]["train/loss"]["x"]
    assert recorded == first + rest


def test_e08_two_windows_see_the_same_state_first_and_then_the_same_changes(server: ServerProcess) -> None:
    run_id = server.submit(60, step_s=0.03)
    server.wait_step(run_id, 5)

    async def window() -> tuple[int, list[int]]:
        async with connect(server.stream_url(run_id)) as socket, asyncio.timeout(60):
            snapshot = json.loads(await socket.recv())
            assert snapshot["type"] == "snapshot"
            seqs: list[int] = []
            async for message in socket:
                frame = json.loads(message) if isinstance(message, str) else None
                if frame is not None:
                    seqs.append(frame["seq"])
                    if frame["type"] == "state" and frame["state"] == "finished":
                        break
        return snapshot["seq"], seqs

    async def both() -> list[tuple[int, list[int]]]:
        return [*await asyncio.gather(window(), window())]

    for begun_at, seqs in asyncio.run(both()):
        assert seqs == list(range(begun_at + 1, server.get(f"/runs/{run_id}")["last_seq"] + 1))
