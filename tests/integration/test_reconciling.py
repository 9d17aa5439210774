"""What a server makes of the runs that the database calls live when it starts, and of those whose folder went."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from horizon_app.control.process_watch import RUN_VARIABLE
from tests.support.commands import ROOT
from tests.support.server import ServerProcess, furnish_home, is_alive, scripted_spec, wait_for

STARTING = "state = 'starting', started_at = '2026-01-01 00:00:00'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(
        furnish_home(tmp_path_factory.mktemp("reconciling") / "home"),
        HORIZON_WORKER_MODULE="tests.support.fake_worker",
        HORIZON_FAKE_STEP_S="0.03",
    ) as process:
        yield process


def submit(server: ServerProcess, steps: int) -> str:
    spec = {**scripted_spec(steps), "notes": "", "checkpoint": {"every": 5}}
    return server.post("/runs", {"spec": spec})["id"]


def change_row(server: ServerProcess, run_id: str, change: str) -> None:
    with sqlite3.connect(server.home / "horizon.db") as database:
        database.execute(f"UPDATE runs SET {change} WHERE id = ?", (run_id,))
    database.close()


def test_run_whose_process_nobody_wrote_down_is_found_again_by_the_server_that_starts(server: ServerProcess) -> None:
    run_id = submit(server, 150)
    server.wait_step(run_id, 3)
    server.end(signal.SIGKILL)
    pid = json.loads((server.home / "runs" / run_id / "worker.json").read_text())["pid"]
    change_row(
        server, run_id, "state = 'starting', pid = NULL, process_start = NULL, started_at = '2026-01-01 00:00:00'"
    )
    server.start()
    assert server.wait_state(run_id, "finished", deadline_s=40)["step"] == 150
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"


def test_run_that_was_starting_when_server_and_machine_died_is_interrupted_at_the_next_start(
    server: ServerProcess,
) -> None:
    run_id = server.post("/runs", {"spec": scripted_spec(5), "start": False})["id"]
    server.end(signal.SIGKILL)
    change_row(server, run_id, STARTING)
    server.start()
    run = server.wait_state(run_id, "interrupted", deadline_s=10)
    assert (run["cause"], run["resumable"]) == ("never_started", True)


def test_run_whose_machine_was_restarted_says_so(server: ServerProcess) -> None:
    run_id = submit(server, 10_000)
    server.wait_saved(run_id)
    server.end(signal.SIGKILL)
    psutil.Process(json.loads((server.home / "runs" / run_id / "worker.json").read_text())["pid"]).kill()
    change_row(server, run_id, "boot_id = 'of-another-life'")
    server.start()
    assert server.get(f"/runs/{run_id}")["state"] in ("running", "interrupted"), "it answers while it still looks"
    run = server.wait_state(run_id, "interrupted", deadline_s=10)
    assert run["cause"] == "reboot" and "the machine was restarted" in run["reason"]
    assert f"last checkpoint at step {run['checkpoints'][-1]['step']}" in run["reason"]


def test_run_whose_folder_was_deleted_is_interrupted_and_begins_again_with_every_step_once(
    server: ServerProcess,
) -> None:
    run_id = submit(server, 60)
    server.wait_step(run_id, 12)
    folder = server.home / "runs" / run_id
    folder.rename(server.home / "elsewhere")
    shutil.rmtree(server.home / "elsewhere", ignore_errors=True)
    run = server.wait_state(run_id, "interrupted", deadline_s=10)
    assert run["cause"] == "folder_gone" and "the run's folder is gone" in run["reason"]
    server.post(f"/runs/{run_id}/resume")
    server.wait_state(run_id, "finished", deadline_s=40)
    series = server.get(f"/runs/{run_id}/metrics", keys="train/loss")["series"]["train/loss"]
    assert series["x"] == list(range(1, 61))


def test_what_a_dead_worker_left_running_is_ended_with_its_run(server: ServerProcess) -> None:
    run_id = submit(server, 10_000)
    server.wait_step(run_id, 2)
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True, cwd=ROOT,
        env={RUN_VARIABLE: run_id},
    )  # fmt: skip
    psutil.Process(json.loads((server.home / "runs" / run_id / "worker.json").read_text())["pid"]).kill()
    server.wait_state(run_id, "interrupted", deadline_s=10)
    assert child.wait(timeout=10) == -signal.SIGKILL
    wait_for(lambda: server.get(f"/runs/{run_id}")["exit_status"] == -9, "how the worker ended is kept")


def test_what_the_worker_of_an_ended_run_left_behind_is_ended_by_the_server_that_starts(tmp_path: Path) -> None:
    with ServerProcess(furnish_home(tmp_path / "home")) as server:
        run_id = server.post("/runs", {"spec": scripted_spec(2, lingers_s=60)})["id"]
        server.wait_state(run_id, "finished")
        server.end(signal.SIGKILL)
        run_dir = server.home / "runs" / run_id
        psutil.Process(json.loads((run_dir / "worker.json").read_text())["pid"]).kill()
        child = int((run_dir / "child.json").read_text())
        assert is_alive(child)
        server.start()
        wait_for(lambda: not is_alive(child), "what the worker started has ended")
