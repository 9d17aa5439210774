"""Kills servers and workers at random while clients watch, and looks at what the history holds in the end."""

import asyncio
import contextlib
import json
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import websockets
from websockets.asyncio.client import connect

from horizon_app.contracts.events import EVENT
from tests.support.run_folders import wait_until
from tests.support.server import ServerProcess, furnish_home, is_alive

STEPS, STEP_S, EVERY = 80, 0.03, 5
CLIENTS_A_RUN = 2
_END_S = 240.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Survived:
    """What came of it."""

    server_kills: int
    worker_kills: int
    runs: int
    resumed: int
    reconnections: int
    frames: int
    """Text frames that all clients together received."""
    seconds: float


@dataclass
class _Watcher:
    """A client that comes back with the last seq it saw, whatever happens to the server."""

    url: Callable[[int], str]
    seqs: list[int] = field(default_factory=list[int])
    connections: int = 0

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            with contextlib.suppress(OSError, websockets.WebSocketException, TimeoutError):
                async with connect(self.url(self.seqs[-1] if self.seqs else 0), open_timeout=5) as stream:
                    self.connections += 1
                    async for message in stream:
                        if isinstance(message, str):
                            self.seqs.append(json.loads(message)["seq"])
            await asyncio.sleep(0.05)


class _Gallery:
    """The clients, on a thread of their own."""

    def __init__(self) -> None:
        self.watchers: dict[str, list[_Watcher]] = {}
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="clients")
        self._thread.start()

    def watch(self, run_id: str, url: Callable[[int], str]) -> None:
        """Two more clients for a run."""
        self.watchers[run_id] = [_Watcher(url) for _ in range(CLIENTS_A_RUN)]
        for watcher in self.watchers[run_id]:
            self._loop.call_soon_threadsafe(lambda one=watcher: self._tasks.append(self._loop.create_task(one.watch())))

    def close(self) -> None:
        """Send the clients home."""

        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()


class _Havoc:
    """One home with its server, its runs and their clients."""

    def __init__(self, folder: Path, seed: int, say: Callable[[str], None]) -> None:
        self._chance = random.Random(seed)
        self._say = say
        self._port = _free_port()
        self.server = ServerProcess(
            furnish_home(folder / "home"), HORIZON_PORT=str(self._port), HORIZON_FAKE_STEP_S=str(STEP_S),
            HORIZON_WORKER_MODULE="tests.support.fake_worker",
        )  # fmt: skip
        self.gallery = _Gallery()
        self.runs: list[str] = []
        self.killed = {"server": 0, "worker": 0}
        self.resumed = 0

    def submit(self) -> None:
        spec = {
            "model": {"path": "models/tiny"}, "data": {"path": "data/corpus.txt"},
            "training": {"optimizer_steps": STEPS}, "checkpoint": {"every": EVERY, "keep": 2},
        }  # fmt: skip
        run_id = self.server.post("/runs", {"spec": spec})["id"]
        self.runs.append(run_id)
        base = f"ws://127.0.0.1:{self._port}/api/v1/runs/{run_id}/stream?after="
        self.gallery.watch(run_id, lambda after: f"{base}{after}")

    def kill_something(self) -> None:
        """A worker in the middle of its run, or the server, which is started again at once."""
        kind = self._chance.choice(["server", "worker"])
        if kind == "server":
            self._wait_a_little()
            self.server.end(signal.SIGKILL)
            self.server.start()
        else:
            while not self._kill_workers():
                wait_until(self._workers_at_last, "a worker lives", 60)
                self._wait_a_little()
        self.killed[kind] += 1
        self._say(f"kill {sum(self.killed.values())}: {kind}")

    def go_on(self) -> bool:
        """Resume what was interrupted; whether everything has finished."""
        states = {run_id: self.server.get(f"/runs/{run_id}") for run_id in self.runs}
        for run_id, run in states.items():
            assert run["state"] not in ("failed", "stopped"), (run_id, run["reason"])
            if run["state"] == "interrupted":
                assert run["resumable"] and run["cause"] and run["reason"]
                with contextlib.suppress(httpx.HTTPStatusError):  # its worker is just going: at the next look
                    self.server.post(f"/runs/{run_id}/resume")
                    self.resumed += 1
        return all(run["state"] == "finished" for run in states.values())

    def check(self) -> None:
        """Every step of every journal once in the history, every text frame once and in order at every client."""
        for run_id in self.runs:
            written = [EVENT.validate_json(line).model_dump(mode="json") for line in self._journal(run_id)]
            kept = [
                {key: value for key, value in event.items() if key != "seq"}
                for event in _all_events(self.server, run_id) if event.get("who", "worker") == "worker"
            ]  # fmt: skip
            steps = [event["step"] for event in written if event["type"] == "metrics"]
            assert steps == [event["step"] for event in kept if event["type"] == "metrics"]
            series = self.server.get(f"/runs/{run_id}/metrics", keys="train/loss", max_points=10_000)["series"]
            assert series["train/loss"]["x"] == sorted(set(steps)) == list(range(1, STEPS + 1))
            last = self.server.get(f"/runs/{run_id}")["last_seq"]
            for watcher in self.gallery.watchers[run_id]:
                wait_until(lambda seqs=watcher.seqs, end=last: len(seqs) >= end, "the client has caught up", 60)
                assert watcher.seqs == list(range(1, last + 1))

    def keep_busy(self) -> None:
        """Resume what was interrupted; one more run where all have finished."""
        if self.go_on():
            self.submit()

    def _wait_a_little(self) -> None:
        time.sleep(self._chance.uniform(0.0, 1.0))

    def _kill_workers(self) -> bool:
        """Whether one had not yet written that its run is finished: a run that short ends before many a kill."""
        killed = self._workers()
        for process in killed.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
            wait_until(lambda pid=process.pid: not is_alive(pid), "the worker is gone", 20)
        return any(not self._has_finished(run_id) for run_id in killed)

    def _has_finished(self, run_id: str) -> bool:
        events = [EVENT.validate_json(line) for line in self._journal(run_id)[-1:]]
        return any(event.type == "state" and event.state == "finished" for event in events)

    def _journal(self, run_id: str) -> list[bytes]:
        """Its whole lines; a kill may have cut the last one off."""
        path = self.server.home / "runs" / run_id / "journal.jsonl"
        return path.read_bytes().split(b"\n")[:-1] if path.exists() else []

    def _workers_at_last(self) -> dict[str, psutil.Process]:
        found = self._workers()
        if not found:
            self.keep_busy()
        return found

    def _workers(self) -> dict[str, psutil.Process]:
        found: dict[str, psutil.Process] = {}
        for run_id in self.runs:
            with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
                known = json.loads((self.server.home / "runs" / run_id / "worker.json").read_bytes())
                process = psutil.Process(known["pid"])
                if abs(process.create_time() - known["start_time"]) < 1 and is_alive(process.pid):
                    found[run_id] = process
        return found


def survive(
    folder: Path, *, kills: int, seed: int, runs: int = 3, say: Callable[[str], None] = lambda _: None
) -> Survived:
    """Queue `runs`, kill `kills` times, see all to their end, and check what is left; more runs where all ended."""
    begin = time.monotonic()
    havoc = _Havoc(folder, seed, say)
    with havoc.server:
        try:
            for _ in range(runs):
                havoc.submit()
            while sum(havoc.killed.values()) < kills:
                havoc.kill_something()
                havoc.keep_busy()
            wait_for_end = time.monotonic() + _END_S
            while not havoc.go_on():
                assert time.monotonic() < wait_for_end, "the runs do not come to their end"
                time.sleep(0.1)
            havoc.check()
        finally:
            havoc.gallery.close()
    watchers = [watcher for those in havoc.gallery.watchers.values() for watcher in those]
    return Survived(
        server_kills=havoc.killed["server"], worker_kills=havoc.killed["worker"], runs=len(havoc.runs),
        resumed=havoc.resumed, reconnections=sum(watcher.connections - 1 for watcher in watchers),
        frames=sum(len(watcher.seqs) for watcher in watchers), seconds=round(time.monotonic() - begin, 1),
    )  # fmt: skip


def _all_events(server: ServerProcess, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    types = ["state", "metrics", "log", "event", "checkpoint", "sample", "knobs"]
    while True:
        after = found[-1]["seq"] if found else 0
        page = server.get(f"/runs/{run_id}/events", types=types, limit=1000, after=after)["events"]
        if not page:
            return found
        found += page


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
