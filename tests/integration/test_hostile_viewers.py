"""Viewers that are slow, silent, gone or malicious: the server stays, and everybody else gets every frame."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from horizon_app.api.seats import Allowance
from tests.support.raw_viewer import BINARY, PING, PONG, TEXT, RawViewer
from tests.support.server import ServerProcess, furnish_home, wait_for

SEATS = 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all, which has little patience and few seats."""
    home = furnish_home(tmp_path_factory.mktemp("hostile") / "home")
    with ServerProcess(home, HORIZON_STREAM_PING_S="1", HORIZON_MAX_STREAMS=str(SEATS)) as process:
        yield process


@pytest.fixture(scope="module")
def ended(server: ServerProcess) -> str:
    """A run whose stream has come to its end."""
    run_id = server.submit(3)
    server.wait_state(run_id, "finished")
    return run_id


def connections(server: ServerProcess) -> int:
    """Connections that the server holds, those of its own client left out."""
    pid = json.loads((server.home / "server.json").read_text())["pid"]
    return sum(one.status == psutil.CONN_ESTABLISHED for one in psutil.Process(pid).net_connections("tcp"))


def resident_bytes(server: ServerProcess) -> int:
    return psutil.Process(json.loads((server.home / "server.json").read_text())["pid"]).memory_info().rss


def read_all(url: str) -> list[dict[str, Any]]:
    """Text frames from the start to the run's end, as a viewer that behaves gets them."""

    async def read() -> list[dict[str, Any]]:
        texts: list[dict[str, Any]] = []
        async with connect(url, max_size=None) as socket, asyncio.timeout(60):
            async for message in socket:
                if isinstance(message, str):
                    texts.append(json.loads(message))
                    if texts[-1]["type"] == "state" and texts[-1]["state"] in ("finished", "stopped"):
                        break
        return texts

    return asyncio.run(read())


def test_viewer_that_answers_no_ping_is_dropped(server: ServerProcess, ended: str) -> None:
    with RawViewer(server.stream_url(ended, after=0)) as silent:
        assert silent.close_code() == 1011


def test_viewer_that_reads_nothing_is_let_go_and_takes_no_memory(server: ServerProcess) -> None:
    run_id = server.submit(250, step_s=0.001, log_bytes=60_000)
    before = connections(server)
    resident = resident_bytes(server)
    dead = [RawViewer(server.stream_url(run_id, after=0), receive_bytes=4096) for _ in range(20)]
    texts = read_all(server.stream_url(run_id, after=0))
    assert [text["seq"] for text in texts] == list(range(1, len(texts) + 1))
    assert resident_bytes(server) - resident < 100 << 20  # all that they don't read is 300 MB
    wait_for(lambda: connections(server) <= before, "the server lets the dead connections go")
    for viewer in dead:
        viewer.socket.close()


def test_viewer_on_a_slow_line_is_kept_and_gets_all(server: ServerProcess) -> None:
    """What waits for it takes several pings' time, so that its answers come late; but it reads all the while."""
    run_id = server.submit(25, step_s=0.001, log_bytes=200_000)
    last_seq = server.wait_state(run_id, "finished")["last_seq"]
    seqs: list[int] = []
    with RawViewer(server.stream_url(run_id, after=0), receive_bytes=16_384) as slow:
        begin = time.monotonic()
        for opcode, content in slow.frames():
            if opcode == PING:
                slow.send(PONG, content)
            elif opcode == TEXT:
                seqs.append(json.loads(content)["seq"])
                while time.monotonic() - begin < len(seqs) * 0.1:
                    time.sleep(0.002)
            if seqs and seqs[-1] == last_seq:
                break
    assert seqs == list(range(1, last_seq + 1))


def test_viewers_that_vanish_without_a_word_leave_nothing_behind(server: ServerProcess) -> None:
    run_id = server.submit(60, step_s=0.02)
    before = connections(server)
    for _ in range(2):
        for viewer in [RawViewer(server.stream_url(run_id, after=0)) for _ in range(SEATS // 2)]:
            viewer.vanish()
    texts = read_all(server.stream_url(run_id, after=0))
    assert [text["seq"] for text in texts] == list(range(1, len(texts) + 1))
    wait_for(lambda: connections(server) <= before, "their connections are closed")


def test_viewer_that_floods_is_sent_away(server: ServerProcess, ended: str) -> None:
    with RawViewer(server.stream_url(ended)) as hostile:
        for _ in range(Allowance.BURST + 20):
            hostile.send(TEXT, b'{"residency_hz": 5}')
        assert hostile.close_code() == 1008


@pytest.mark.parametrize(
    ("opcode", "content", "code"),
    [(TEXT, b"x" * 100_000, 1009), (TEXT, b"\xff\xfe", 1007), (0x3, b"", 1002)],
    ids=["giant", "no text", "no such opcode"],
)
def test_frame_that_no_viewer_has_a_reason_to_send_ends_its_stream_only(
    server: ServerProcess, ended: str, opcode: int, content: bytes, code: int
) -> None:
    with RawViewer(server.stream_url(ended)) as hostile:
        hostile.send(opcode, content)
        assert hostile.close_code() == code
    assert read_all(server.stream_url(ended, after=0))[0]["seq"] == 1


def test_bytes_that_mean_nothing_change_nothing(server: ServerProcess) -> None:
    run_id = server.submit(30, step_s=0.02)
    with RawViewer(server.stream_url(run_id, after=0)) as odd:
        for rubbish in (b"", b"\x00\xff" * 500):
            odd.send(BINARY, rubbish)
        for text in (b"[]", b'{"residency_hz": 1e9}', b'{"residency_hz": NaN}', b"{" * 1000):
            odd.send(TEXT, text)
        seqs = []
        for opcode, content in odd.frames():
            if opcode == TEXT:
                frame = json.loads(content)
                seqs.append(frame["seq"])
                if frame["type"] == "state" and frame["state"] == "finished":
                    break
    assert seqs == list(range(1, len(seqs) + 1))


def test_streams_beyond_the_limit_are_told_to_come_later_and_a_seat_that_is_left_is_free(
    server: ServerProcess, ended: str
) -> None:
    wait_for(lambda: connections(server) <= 2, "the viewers before have left")

    async def fill() -> None:
        url = server.stream_url(ended)
        sockets = [await connect(url) for _ in range(SEATS)]
        for socket in sockets:
            await socket.recv()
        for refused in (url, f"{server.url.replace('http', 'ws')}/api/v1/stream"):
            async with connect(refused) as late:
                with pytest.raises(ConnectionClosed) as closed:
                    await late.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013 and "HORIZON_MAX_STREAMS" in closed.value.rcvd.reason
        assert await asyncio.to_thread(server.get, "/healthz")
        await sockets[0].close()
        async with asyncio.timeout(10):
            while True:
                async with connect(url) as again:
                    try:
                        assert json.loads(await again.recv())["type"] == "snapshot"
                    except ConnectionClosed:
                        continue
                    break
        for socket in sockets:
            await socket.close()

    asyncio.run(fill())


@pytest.mark.parametrize("after", ["-3", "1.5", "x", "٣", "9" * 40, "1;drop"])
def test_after_that_is_no_place_is_refused_by_a_code_of_its_own(server: ServerProcess, ended: str, after: str) -> None:
    async def ask() -> int:
        async with connect(f"{server.stream_url(ended)}?after={after}") as socket:
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code

    assert asyncio.run(ask()) == 4422


def test_viewer_of_a_run_that_is_deleted_is_told(server: ServerProcess) -> None:
    run_id = server.submit(2)
    server.wait_state(run_id, "finished")

    async def watch() -> tuple[int, dict[str, Any]]:
        overview = f"{server.url.replace('http', 'ws')}/api/v1/stream"
        async with connect(server.stream_url(run_id)) as one, connect(overview) as all_runs, asyncio.timeout(20):
            await one.recv()
            await asyncio.to_thread(server.client.delete, f"/runs/{run_id}")
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await one.recv()
            while (told := json.loads(await all_runs.recv()))["type"] != "gone":
                pass
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code, told

    code, told = asyncio.run(watch())
    assert (code, told["id"]) == (4404, run_id)


def test_overview_that_comes_back_hears_what_changed_since(server: ServerProcess) -> None:
    async def first_of(run_id: str, since: str = "") -> dict[str, Any]:
        url = f"{server.url.replace('http', 'ws')}/api/v1/stream?since={since.replace('+', '%2B')}"
        async with connect(url) as socket, asyncio.timeout(20):
            while (frame := json.loads(await socket.recv()))["run"]["id"] != run_id:
                pass
            return frame

    run_id = server.submit(1000, step_s=0.02)
    server.wait_step(run_id, 1)
    seen = asyncio.run(first_of(run_id))
    assert (seen["run"]["id"], seen["run"]["state"]) == (run_id, "running")
    server.post(f"/runs/{run_id}/stop")
    server.wait_state(run_id, "stopped")
    missed = asyncio.run(first_of(run_id, since=seen["time"]))
    assert (missed["type"], missed["run"]["state"]) == ("run", "stopped")


def test_allowance_takes_a_burst_and_then_so_many_a_second() -> None:
    now = [0.0]
    allowance = Allowance(clock=lambda: now[0])
    assert [allowance.spend() for _ in range(Allowance.BURST + 1)] == [True] * Allowance.BURST + [False]
    now[0] = 1.0
    assert [allowance.spend() for _ in range(11)] == [True] * 10 + [False]
