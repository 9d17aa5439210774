"""Runs whose workers die, do not stop, or are not read: what people lost nights to with other tools."""

import asyncio
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import connect

from horizon_app.contracts.run_state import RunState
from horizon_app.control.patience import patience_s
from horizon_app.control.process_watch import processes_of
from horizon_app.settings import AppSettings
from horizon_app.store.runs import get_run
from tests.support.commands import ROOT
from tests.support.run_folders import states
from tests.support.server import ServerProcess, furnish_home, scripted_spec, wait_for
from tests.support.stores import add_run, open_store

INPUTS = Path(__file__).parent / "inputs"


def worker_of(server: ServerProcess, run_id: str) -> psutil.Process:
    path = server.home / "runs" / run_id / "worker.json"
    return psutil.Process(json.loads(wait_for(lambda: path.read_text() if path.exists() else "", "a worker"))["pid"])


# -- E04: the worker dies. The case's word is `failed`; ours for a worker that vanished is `interrupted`.


@pytest.fixture
def fake_server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(
        furnish_home(tmp_path / "home"), HORIZON_WORKER_MODULE="tests.support.fake_worker", HORIZON_FAKE_STEP_S="0.05"
    ) as server:
        yield server


async def states_until_ended(url: str, kill: Any) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    async with connect(url) as socket, asyncio.timeout(15):
        await asyncio.to_thread(kill)
        async for message in socket:
            frame = json.loads(message) if isinstance(message, str) else {}
            if frame.get("type") == "state":
                seen.append(frame)
                if frame["state"] == "interrupted":
                    break
    return seen


def test_worker_killed_leaves_within_ten_seconds_a_resumable_run_that_names_signal_step_and_checkpoint(
    fake_server: ServerProcess,
) -> None:
    server = fake_server
    spec = {**scripted_spec(240), "checkpoint": {"every": 5}, "notes": ""}
    run_id = server.post("/runs", {"spec": spec})["id"]
    server.wait_saved(run_id)
    begin = datetime.now(UTC)
    url = server.stream_url(run_id, after=0)
    told = asyncio.run(states_until_ended(url, worker_of(server, run_id).kill))
    assert (datetime.now(UTC) - begin).total_seconds() < 10
    run = server.get(f"/runs/{run_id}")
    assert (run["state"], run["resumable"], run["cause"], run["exit_status"]) == ("interrupted", True, "signal", -9)
    last = run["checkpoints"][-1]["step"]
    for words in ("signal 9 (SIGKILL)", f"{run['step']} optimizer steps done", f"last checkpoint at step {last}"):
        assert words in run["reason"] and words in told[-1]["reason"]
    assert told[-1]["who"] == "server"
    server.post(f"/runs/{run_id}/resume")
    ended = server.wait_state(run_id, "finished", deadline_s=40)
    assert (ended["step"], ended["cause"], ended["resumable"]) == (240, None, False)
    wait_for(lambda: server.get(f"/runs/{run_id}")["exit_status"] == 0, "how its worker ended is kept")


# -- E06: stop does not stop


@pytest.fixture(scope="module")
def slow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(
        furnish_home(tmp_path_factory.mktemp("slow") / "home"), HORIZON_WORKER_MODULE="tests.support.slow_worker",
        HORIZON_STOP_GRACE_S="1", HORIZON_KILL_GRACE_S="0.3", HORIZON_SLOW_S="60",
    ) as server:  # fmt: skip
        yield server


def submit(server: ServerProcess, **script: Any) -> str:
    spec = {**scripted_spec(100_000, **script), "checkpoint": {"every": 5}}
    return server.post("/runs", {"spec": spec})["id"]


def has_gone(server: ServerProcess, run_id: str) -> bool:
    """Whether nothing of a run is left: neither its worker nor anything that it started."""
    children = json.loads((server.home / "runs" / run_id / "children.json").read_text())
    alive = [pid for pid in children if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    return not alive and not processes_of(run_id)


@pytest.mark.parametrize("phase", ["tokenise", "load"])
def test_run_stopped_while_it_prepares_ends_by_itself_with_its_children(slow_server: ServerProcess, phase: str) -> None:
    server = slow_server
    run_id = submit(server, slow=phase, children=True)
    wait_for((server.home / "runs" / run_id / "phase").exists, f"the worker is at {phase}")
    server.post(f"/runs/{run_id}/stop")
    assert server.post(f"/runs/{run_id}/stop")["state"] in ("stopping", "stopped")
    run = server.wait_state(run_id, "stopped")
    assert "asked to stop while" in run["reason"] and run["exit_status"] in (0, None)
    wait_for(lambda: has_gone(server, run_id), "nothing is left of it")
    answer = server.client.post(f"/runs/{run_id}/stop")
    assert answer.status_code == 409 and "stopped" in answer.json()["detail"]


def test_run_stopped_while_its_worker_imports_torch_is_stopping_at_once_and_soon_stopped(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    begun = tmp_path / "begun"
    text = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(600)\n"
    (tmp_path / "torch" / "__init__.py").write_text(text)
    with ServerProcess(
        furnish_home(tmp_path / "home"), HORIZON_WORKER_MODULE="horizon_app.worker",
        PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}",
    ) as server:  # fmt: skip
        run_id = server.submit(5)
        wait_for(begun.exists, "torch is being imported", deadline_s=60)
        assert server.post(f"/runs/{run_id}/stop")["state"] in ("stopping", "stopped")
        run = server.wait_state(run_id, "stopped")
        wait_for(lambda: not processes_of(run_id), "its worker is gone")
    assert run["reason"].startswith("asked to stop while reading the data (importing ")
    assert states(server.home / "runs" / run_id) == ["stopped"], "the worker ended by itself, and said so once"


@pytest.mark.parametrize(
    "script", [{"slow": "step"}, {"slow": "save"}, {"slow": "tokenise", "deaf": True}], ids=["step", "save", "deaf"]
)
def test_run_that_does_not_stop_is_ended_with_all_that_it_started_and_the_next_one_starts(
    slow_server: ServerProcess, script: dict[str, Any]
) -> None:
    server = slow_server
    run_id = submit(server, **script, children=True)
    wait_for((server.home / "runs" / run_id / "phase").exists, "the worker is at it")
    begin = datetime.now(UTC)
    server.post(f"/runs/{run_id}/stop", {"save": False})
    server.post(f"/runs/{run_id}/stop", {"save": False})
    run = server.wait_state(run_id, "stopped", deadline_s=15)
    assert (datetime.now(UTC) - begin).total_seconds() < 15
    assert "did not stop within" in run["reason"]
    wait_for(lambda: has_gone(server, run_id), "nothing is left of it")
    after = submit(server)
    server.wait_step(after, 2)
    server.post(f"/runs/{after}/stop")
    assert server.wait_state(after, "stopped")["checkpoints"]


def test_small_run_has_stopped_within_fifteen_seconds_by_default(tmp_path: Path) -> None:

    settings = AppSettings()
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.STARTING, parameters=1 << 20)
        with database.read() as tx:
            run = get_run(tx, run_id)
    assert run is not None
    assert patience_s(run, settings.stop_grace_s) + settings.kill_grace_s < 14


# -- E07: nobody reads the worker's output


@pytest.mark.slow
def test_worker_that_logs_everything_ends_with_nobody_reading_and_all_clients_see_the_same_lines(
    tmp_path: Path,
) -> None:
    case = json.loads((INPUTS / "E07" / "run.json").read_text())
    home = furnish_home(tmp_path / "home")
    (home / "models" / "llama").symlink_to(INPUTS / "_common" / "tiny-llama")
    (home / "data" / "noisy.jsonl").write_bytes((INPUTS / "E07" / "noisy.jsonl").read_bytes())
    spec = {
        "model": {"path": "models/llama"}, "data": {"path": "data/noisy.jsonl", "sequence_length": 64},
        "training": {"optimizer_steps": case["steps"], "global_batch_size": 1},
        "offload": {"device": "cpu", "param_block_size": "16KiB", "max_gpu_blocks": 8}, "checkpoint": {"every": 0},
    }  # fmt: skip
    with ServerProcess(
        home, HORIZON_WORKER_MODULE="horizon_app.worker", OMP_NUM_THREADS="1", HORIZON_FOLDERS=str(INPUTS),
        HORIZON_LOG_LEVEL=case["log_level"],
    ) as server:  # fmt: skip
        run_id = server.post("/runs", {"spec": spec})["id"]
        run = server.wait_state(run_id, "finished", "failed", deadline_s=120)
        assert (run["state"], run["step"]) == ("finished", 200), run["reason"]
        assert (home / "runs" / run_id / "worker.log").stat().st_size > 256 << 10
        first, second = (all_lines(server, run_id) for _ in range(2))
        assert first == second
        assert sum("optimizer step" in line["message"] for line in first) >= 200


def all_lines(server: ServerProcess, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        after = found[-1]["seq"] if found else 0
        page = server.get(f"/runs/{run_id}/logs", after=after, limit=500)["lines"]
        if not page:
            return found
        found += page
