"""Runs through a real server process and scripted workers: submission to the end, kills, stops, the queue."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.commands import ROOT
from tests.support.server import ServerProcess, furnish_home, scripted_spec, wait_for


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, database_setting: Callable[[], dict[str, str]]
) -> Iterator[ServerProcess]:
    """One server for the tests that let it live."""
    home = furnish_home(tmp_path_factory.mktemp("shared") / "home 中文")
    with ServerProcess(home, HORIZON_STOP_GRACE_S="1.5", HORIZON_KILL_GRACE_S="0.5", **database_setting()) as process:
        yield process


@pytest.fixture
def mortal(tmp_path: Path, database_setting: Callable[[], dict[str, str]]) -> Iterator[ServerProcess]:
    """A server for one test."""
    with ServerProcess(furnish_home(tmp_path / "home"), **database_setting()) as process:
        yield process


def steps_of(server: ServerProcess, run_id: str) -> list[int]:
    return [event["step"] for event in server.all_events(run_id) if event["type"] == "metrics"]


def seqs_of(server: ServerProcess, run_id: str) -> list[int]:
    return [event["seq"] for event in server.all_events(run_id)]


def worker_pid(home: Path, run_id: str) -> int:
    path = home / "runs" / run_id / "worker.json"
    text = wait_for(lambda: path.read_text() if path.exists() else None, "the worker says who it is")
    return json.loads(text)["pid"]


def test_run_submitted_goes_through_its_states_and_keeps_everything(server: ServerProcess) -> None:
    run_id = server.submit(steps=12)
    run = server.wait_state(run_id, "finished")
    assert (run["step"], run["total_steps"], run["device"], run["model"]["parameters"]) == (12, 12, "cpu", 64)
    assert run["started_at"] is not None and run["ended_at"] >= run["started_at"]
    assert [(one["step"], one["path"], one["bytes"]) for one in run["checkpoints"]] == [(12, "checkpoints/12", 7)]
    assert run["outcome"]["optimizer_steps"] == 12 and run["plan"]["total_steps"] == 12 and run["layout_ready"]
    states = [event["state"] for event in server.all_events(run_id) if event["type"] == "state"]
    assert states == ["queued", "starting", "running", "finished"]
    series = server.get(f"/runs/{run_id}/metrics", keys="train/loss")["series"]["train/loss"]
    assert series["x"] == list(range(1, 13)) and series["y"] == [4.0 / step for step in range(1, 13)]
    assert server.get(f"/runs/{run_id}/residency", step=4)["frame"] != server.get(f"/runs/{run_id}/residency")["frame"]


def test_server_killed_during_a_run_and_started_again_has_every_step_once(mortal: ServerProcess) -> None:
    run_id = mortal.submit(steps=150, step_s=0.03)
    mortal.wait_step(run_id, 5)
    mortal.end(signal.SIGKILL)
    mortal.start()
    mortal.wait_state(run_id, "finished")
    assert steps_of(mortal, run_id) == list(range(1, 151))
    assert seqs_of(mortal, run_id) == list(range(1, mortal.get(f"/runs/{run_id}")["last_seq"] + 1))


def test_server_killed_while_a_run_finishes_records_the_rest_at_its_start(mortal: ServerProcess) -> None:
    run_id = mortal.submit(steps=30, step_s=0.03)
    mortal.wait_step(run_id, 3)
    mortal.end(signal.SIGKILL)
    wait_for((mortal.home / "runs" / run_id / "exit.json").exists, "the worker ends without a server")
    mortal.start()
    run = mortal.wait_state(run_id, "finished")
    assert run["step"] == 30
    assert steps_of(mortal, run_id) == list(range(1, 31))


def test_worker_killed_leaves_an_interrupted_run_that_names_the_signal(server: ServerProcess) -> None:
    run_id = server.submit(steps=1000, step_s=0.05)
    server.wait_step(run_id, 2)
    os.kill(worker_pid(server.home, run_id), signal.SIGKILL)
    run = server.wait_state(run_id, "interrupted", deadline_s=10)
    assert "signal 9 (SIGKILL)" in run["reason"]
    assert f"{run['step']} optimizer steps done" in run["reason"]
    assert run["ended_at"] is not None


def test_worker_killed_while_no_server_runs_is_interrupted_at_the_next_start(mortal: ServerProcess) -> None:
    run_id = mortal.submit(steps=1000, step_s=0.05)
    mortal.wait_step(run_id, 2)
    mortal.end(signal.SIGKILL)
    os.kill(worker_pid(mortal.home, run_id), signal.SIGKILL)
    mortal.start()
    assert "is gone" in mortal.wait_state(run_id, "interrupted", deadline_s=10)["reason"]


def test_journal_with_a_torn_last_line_is_read_up_to_it(server: ServerProcess) -> None:
    run_id = server.submit(steps=20, die_at=8)
    assert server.wait_state(run_id, "interrupted")["step"] == 7
    assert steps_of(server, run_id) == list(range(1, 8))


def test_journal_line_that_is_no_event_becomes_a_log_line_and_holds_nothing_up(server: ServerProcess) -> None:
    run_id = server.submit(steps=6, garbage_at=3)
    server.wait_state(run_id, "finished")
    assert steps_of(server, run_id) == list(range(1, 7))
    assert "surprise" in server.get(f"/runs/{run_id}/logs", level="error")["lines"][0]["message"]


def test_nan_loss_is_null_with_a_flag_everywhere(server: ServerProcess) -> None:
    run_id = server.submit(steps=4, nan_at=2)
    server.wait_state(run_id, "finished")
    answer = server.get(f"/runs/{run_id}/metrics", keys="train/loss")
    assert answer["series"]["train/loss"]["y"][1] is None
    assert answer["nonfinite"] == {"train/loss": [[2, "nan"]]}
    assert server.get(f"/runs/{run_id}")["sparkline"][1] is None


def test_stop_asked_twice_stops_the_run_once_and_saves(server: ServerProcess) -> None:
    run_id = server.submit(steps=1000, step_s=0.8)
    server.wait_step(run_id, 1)
    assert server.post(f"/runs/{run_id}/stop")["state"] == "stopping"
    assert server.post(f"/runs/{run_id}/stop", {"save": True})["state"] == "stopping"
    run = server.wait_state(run_id, "stopped")
    assert run["checkpoints"][-1]["step"] == run["step"]
    answer = server.client.post(f"/runs/{run_id}/stop")
    assert answer.status_code == 409 and "stopped" in answer.json()["detail"]


def test_worker_that_ignores_stop_is_killed_after_the_grace(server: ServerProcess) -> None:
    run_id = server.submit(steps=10_000, step_s=0.05, ignore_stop=True)
    server.wait_step(run_id, 1)
    pid = worker_pid(server.home, run_id)
    server.post(f"/runs/{run_id}/stop")
    run = server.wait_state(run_id, "stopped", deadline_s=15)
    assert "did not stop within" in run["reason"] and "killed" in run["reason"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    after = server.submit(steps=2)
    server.wait_state(after, "finished")


def test_second_run_waits_for_the_first_and_a_queued_one_can_be_stopped(server: ServerProcess) -> None:
    first = server.submit(steps=1000, step_s=0.02)
    second, third = server.submit(steps=3), server.submit(steps=3)
    server.wait_step(first, 2)
    assert server.get(f"/runs/{second}")["state"] == "queued"
    assert server.post(f"/runs/{second}/stop")["state"] == "stopped"
    server.post(f"/runs/{first}/stop")
    ended = server.wait_state(first, "stopped")
    started = server.wait_state(third, "finished")["started_at"]
    assert started >= ended["ended_at"]


def test_run_held_back_starts_when_it_is_started(server: ServerProcess) -> None:
    run_id = server.post("/runs", {"spec": scripted_spec(3), "start": False})["id"]
    other = server.submit(steps=2)
    server.wait_state(other, "finished")
    assert server.get(f"/runs/{run_id}")["state"] == "queued"
    server.post(f"/runs/{run_id}/start")
    server.wait_state(run_id, "finished")


def test_delete_of_a_live_run_is_refused_and_of_an_ended_one_frees_its_folder(
    server: ServerProcess,
) -> None:
    run_id = server.submit(steps=1000, step_s=0.02)
    server.wait_step(run_id, 1)
    assert server.client.delete(f"/runs/{run_id}").status_code == 409
    server.post(f"/runs/{run_id}/stop")
    server.wait_state(run_id, "stopped")
    home = server.home
    outside = home / "keep.txt"
    outside.write_text("mine")
    (home / "runs" / run_id / "link").symlink_to(outside)
    (home / "runs" / run_id / "folder").symlink_to(home / "data")
    answer = server.client.delete(f"/runs/{run_id}")
    assert answer.status_code == 200 and answer.json()["freed_bytes"] > 0
    assert not (home / "runs" / run_id).exists()
    assert outside.read_text() == "mine" and (home / "data" / "corpus.txt").exists()
    assert server.client.get(f"/runs/{run_id}").status_code == 404


def test_second_server_on_one_home_names_the_first(server: ServerProcess) -> None:
    environment = {**os.environ, "HORIZON_HOME": str(server.home), "HORIZON_PORT": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.serve_home"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert server.url.rpartition(":")[2] in done.stderr and "already runs" in done.stderr


def test_server_ended_by_sigterm_removes_its_file_and_exits_0(mortal: ServerProcess) -> None:
    assert (mortal.home / "server.json").exists()
    assert mortal.end(signal.SIGTERM) == 0
    assert not (mortal.home / "server.json").exists()
