"""A workstation without a server sees a run through, also beside a server or another run."""

import asyncio
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from horizon_app.cli.foreground import ForegroundRun
from horizon_app.cli.run_progress import RunProgress
from horizon_app.contracts.frames import Frame, StateFrame
from horizon_app.contracts.run_state import ENDED, RunState
from horizon_app.control.workstation import Workstation
from horizon_app.settings import AppSettings
from horizon_app.store.runs import get_run
from tests.support.server import ServerProcess, furnish_home, is_alive, scripted_spec, wait_for


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return furnish_home(tmp_path / "home")


@pytest.fixture
def station(home: Path) -> Iterator[Workstation]:
    settings = AppSettings(home=home, worker_module="tests.support.scripted_worker", stop_grace_s=30)
    with Workstation(settings) as station:
        yield station


async def see_through(station: Workstation, run_id: str) -> list[Frame]:
    frames: list[Frame] = []
    async with asyncio.timeout(40):
        detail = await station.supervise(run_id, frames.append)
    assert detail.state in ENDED
    assert [frame.seq for frame in frames] == list(range(1, detail.last_seq + 1))
    return frames


def states(frames: list[Frame]) -> list[str]:
    return [frame.state.value for frame in frames if isinstance(frame, StateFrame)]


async def test_supervise_hands_over_every_event_once_and_returns_the_outcome(home: Path, station: Workstation) -> None:
    run = station.submit(scripted_spec(10), base_dir=home)
    frames = await see_through(station, run.id)
    assert states(frames) == ["queued", "starting", "running", "finished"]
    detail = station.run(run.id)
    assert detail.outcome is not None and detail.outcome.optimizer_steps == 10 == detail.step


async def test_supervise_returns_when_the_worker_and_all_that_it_started_have_gone(
    home: Path, station: Workstation
) -> None:
    run = station.submit(scripted_spec(3, lingers_s=1), base_dir=home)
    await see_through(station, run.id)
    run_dir = home / "runs" / run.id
    pids = [json.loads((run_dir / "worker.json").read_text())["pid"], int((run_dir / "child.json").read_text())]
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_supervise_of_a_run_that_is_stopped_from_its_own_events_ends(home: Path, station: Workstation) -> None:
    run = station.submit(scripted_spec(1000, step_s=0.02), base_dir=home)

    def on_event(frame: Frame) -> None:
        if isinstance(frame, StateFrame) and frame.state is RunState.RUNNING:
            station.stop(run.id)

    async with asyncio.timeout(30):
        detail = await station.supervise(run.id, on_event)
    assert detail.state is RunState.STOPPED


async def test_interrupt_while_a_spec_is_checked_stops_its_run_before_it_starts(
    home: Path, station: Workstation, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreground = ForegroundRun(station, station.settings.runs_dir, RunProgress(Console(file=io.StringIO())))
    submit = station.submit

    def slow(document: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        wait_for(lambda: foreground.interrupts == 1, "the signal is heard")
        return submit(document, **options)

    monkeypatch.setattr(station, "submit", slow)
    detail = await foreground.train(scripted_spec(5), home)
    assert (detail.state, detail.step) == (RunState.STOPPED, 0)
    assert detail.reason == "stopped while it waited in the queue"


async def test_supervise_ends_a_dead_run_that_was_in_its_way(home: Path, station: Workstation) -> None:
    first = station.submit(scripted_spec(1000, step_s=0.05), base_dir=home)
    task = asyncio.create_task(see_through(station, first.id))
    await asyncio.to_thread(wait_for, lambda: station.run(first.id).step >= 2, "two steps are done")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with Workstation(station.settings) as other:  # another process, later: nobody watches the first run any more
        with other.database.read() as tx:
            stored = get_run(tx, first.id)
        assert stored is not None and stored.pid is not None
        os.killpg(stored.pid, signal.SIGKILL)
        second = other.submit(scripted_spec(3), base_dir=home)
        await see_through(other, second.id)
        assert other.run(first.id).state is RunState.INTERRUPTED
        assert other.run(second.id).state is RunState.FINISHED


async def test_run_of_the_command_line_is_watched_by_a_server_too_and_recorded_once(
    home: Path, station: Workstation
) -> None:
    run = station.submit(scripted_spec(10_000, step_s=0.05), base_dir=home)
    task = asyncio.create_task(see_through(station, run.id))
    await asyncio.to_thread(wait_for, lambda: station.run(run.id).step >= 2, "two steps are done")
    server = await asyncio.to_thread(ServerProcess(home).start)
    try:
        assert server.get("/system")["active_run"] == run.id
        # In threads: this loop supervises the run meanwhile.
        await asyncio.to_thread(server.wait_step, run.id, station.run(run.id).step + 5)
        await asyncio.to_thread(server.post, f"/runs/{run.id}/stop")
        assert states(await task)[-2:] == ["stopping", "stopped"]
        steps = [event["step"] for event in server.all_events(run.id) if event["type"] == "metrics"]
    finally:
        await asyncio.to_thread(server.end)
    assert steps == list(range(1, station.run(run.id).step + 1))


async def test_run_submitted_beside_a_server_is_started_by_the_server(home: Path, station: Workstation) -> None:
    server = await asyncio.to_thread(ServerProcess(home).start)
    try:
        assert station.server() is not None
        run = station.submit(scripted_spec(5), base_dir=home)
        await see_through(station, run.id)
        assert not station.launcher.is_parent_of(run.id)
    finally:
        await asyncio.to_thread(server.end)


async def test_worker_that_can_not_be_started_leaves_a_run_that_says_why(home: Path) -> None:
    settings = AppSettings(home=home, worker_module="no.such.module")
    with Workstation(settings) as station:
        run = station.submit(scripted_spec(5), base_dir=home)
        await see_through(station, run.id)
        detail = station.run(run.id)
        assert detail.state is RunState.INTERRUPTED and "exit code 1" in detail.reason
        assert any("no.such" in line.message or "No module" in line.message for line in station.logs(run.id).lines)


async def test_catch_up_records_what_a_worker_wrote_while_nobody_watched(home: Path, station: Workstation) -> None:
    run = station.submit(scripted_spec(20, step_s=0.05), base_dir=home)
    task = asyncio.create_task(see_through(station, run.id))
    await asyncio.to_thread(wait_for, lambda: station.run(run.id).step >= 2, "two steps are done")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ended = home / "runs" / run.id / "exit.json"
    await asyncio.to_thread(wait_for, ended.exists, "the worker has ended by itself")
    with Workstation(station.settings) as later:
        assert later.run(run.id).state is RunState.RUNNING
        later.catch_up()
        assert later.run(run.id).state is RunState.FINISHED
        assert later.run(run.id).step == 20
