"""Runs that end and go on: over REST and from the command line, with real workers around the fake engine."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_horizon, start_horizon, write_spec
from tests.support.run_folders import states, wait_until
from tests.support.server import ServerProcess, furnish_home, is_alive, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    home = furnish_home(tmp_path_factory.mktemp("resuming") / "home")
    with ServerProcess(home, HORIZON_WORKER_MODULE="tests.support.fake_worker", HORIZON_FAKE_STEP_S="0.03") as process:
        yield process


def spec(steps: int, *, every: int = 3, keep: int = 3) -> dict[str, Any]:
    return {
        "model": {"path": "models/tiny"}, "data": {"path": "data/corpus.txt"},
        "training": {"optimizer_steps": steps, "warmup_steps": 0},
        "checkpoint": {"every": every, "keep": keep},
    }  # fmt: skip


def submit(server: ServerProcess, steps: int, **checkpoint: int) -> str:
    return server.post("/runs", {"spec": spec(steps, **checkpoint)})["id"]


def kill_worker(server: ServerProcess, run_id: str) -> None:
    pid = json.loads((server.home / "runs" / run_id / "worker.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    server.wait_state(run_id, "interrupted")


def steps_streamed(server: ServerProcess, run_id: str) -> list[int]:
    return [event["step"] for event in server.all_events(run_id) if event["type"] == "metrics"]


def losses(server: ServerProcess, run_id: str) -> dict[str, list[Any]]:
    return server.get(f"/runs/{run_id}/metrics", keys="train/loss")["series"]["train/loss"]


def test_killed_run_that_is_resumed_has_every_step_once_in_its_series(server: ServerProcess) -> None:
    steps = 150  # far more than go by until the worker is killed
    run_id = submit(server, steps)
    server.wait_step(run_id, 8)
    kill_worker(server, run_id)
    answer = server.client.post(f"/runs/{run_id}/resume")
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")
    run = server.wait_state(run_id, "finished", deadline_s=40)
    assert losses(server, run_id) == {"x": list(range(1, steps + 1)), "y": [4.0 / step for step in range(1, steps + 1)]}
    assert (run["step"], run["ended_at"] > run["started_at"], run["outcome"]["optimizer_steps"]) == (steps, True, steps)
    (resumed,) = [event for event in server.all_events(run_id) if event.get("kind") == "resumed"]
    streamed, goes_on_at = steps_streamed(server, run_id), resumed["data"]["step"]
    killed_at = goes_on_at + len(streamed) - steps
    assert streamed == [*range(1, killed_at + 1), *range(goes_on_at + 1, steps + 1)]
    first, second = run["segments"]
    assert (first["state"], first["first_step"], first["last_step"]) == ("interrupted", 1, killed_at)
    assert (second["state"], second["first_step"], second["last_step"]) == ("finished", goes_on_at + 1, steps)
    assert first["void_after"] == (goes_on_at if killed_at > goes_on_at else None)
    answer = server.get(f"/runs/{run_id}/metrics", keys="train/loss", superseded=True)
    done_again = [one["series"]["train/loss"]["x"] for one in answer["superseded"] if one["segment"] == 1]
    assert done_again == ([[*range(goes_on_at + 1, killed_at + 1)]] if killed_at > goes_on_at else [])
    states_seen = [event["state"] for event in server.all_events(run_id) if event["type"] == "state"]
    assert states_seen == [
        "queued", "starting", "running", "interrupted", "queued", "starting", "running", "finished",
    ]  # fmt: skip
    seqs = [event["seq"] for event in server.all_events(run_id)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_run_resumed_and_stopped_early_keeps_no_metrics_behind_its_new_end(server: ServerProcess) -> None:
    run_id = submit(server, 5000, every=0)
    server.wait_step(run_id, 100)
    kill_worker(server, run_id)
    server.post(f"/runs/{run_id}/resume")
    wait_for(lambda: any(e.get("kind") == "resumed" for e in server.all_events(run_id)), "it goes on")
    server.post(f"/runs/{run_id}/stop")
    run = server.wait_state(run_id, "stopped")
    assert run["step"] < 100
    assert losses(server, run_id)["x"] == list(range(1, run["step"] + 1))


def test_resume_of_what_can_not_go_on_answers_409_with_the_state(server: ServerProcess) -> None:
    live = submit(server, 5000)
    server.wait_step(live, 1)
    queued = submit(server, 2)
    for run_id, state in ((live, "running"), (queued, "queued")):
        answer = server.client.post(f"/runs/{run_id}/resume")
        assert answer.status_code == 409
        assert f"is {state} and can't be resumed" in answer.json()["detail"]
    server.post(f"/runs/{live}/stop", {"save": False})
    server.wait_state(queued, "finished")
    answer = server.client.post(f"/runs/{queued}/resume")
    assert answer.status_code == 409
    assert "all 2 optimizer steps are done" in answer.json()["detail"]
    assert "set training.optimizer_steps to more" in answer.json()["detail"]


def test_run_stopped_and_resumed_at_once_waits_for_its_last_worker(server: ServerProcess) -> None:
    """The final state is recorded before the worker has gone, and the stop that it was sent is not for the next one."""
    run_id = submit(server, 60)
    server.wait_step(run_id, 2)
    server.post(f"/runs/{run_id}/stop")
    server.wait_state(run_id, "stopped")
    server.post(f"/runs/{run_id}/resume")
    run = server.wait_state(run_id, "finished")
    assert run["step"] == 60


def test_finished_run_is_extended_by_more_steps_and_says_so(server: ServerProcess) -> None:
    run_id = submit(server, 4)
    server.wait_state(run_id, "finished")
    refused = server.client.post(f"/runs/{run_id}/resume", json={"set": {"training.optimizer_steps": 4}})
    assert refused.status_code == 409
    server.post(f"/runs/{run_id}/resume", {"set": {"training.optimizer_steps": 9, "offload.policy": "lru"}})
    run = server.wait_state(run_id, "finished")
    assert (run["step"], run["total_steps"], run["spec"]["offload"]["policy"]) == (9, 9, "lru")
    (resumed,) = [event for event in server.all_events(run_id) if event.get("kind") == "resumed"]
    assert resumed["data"]["changed"].keys() == {"training.optimizer_steps", "offload.policy"}
    assert "follows the cosine schedule as if it had been planned over 9 steps" in resumed["message"]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("data.seed", 3, "can't be changed when a run goes on"),
        ("model.path", "models/other", "can't be changed when a run goes on"),
        ("training.global_batch_size", 2, "can't be changed when a run goes on"),
        ("training.optimzer_steps", 20, "unknown key"),
        ("offload.policy", "best", "lru"),
        ("nonsense.deep.key", 1, "unknown key"),
    ],
)
def test_change_that_a_resumed_run_can_not_take_is_refused_by_field(
    key: str, value: Any, says: str, server: ServerProcess
) -> None:
    run_id = submit(server, 1)
    server.wait_state(run_id, "finished")
    answer = server.client.post(f"/runs/{run_id}/resume", json={"set": {key: value}})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert key.startswith(error["field"])
    assert says in f"{error['message']} {error['fix']}"
    assert server.get(f"/runs/{run_id}")["state"] == "finished"


def test_checkpoint_asked_for_is_written_and_pinned_and_stays(server: ServerProcess) -> None:
    run_id = submit(server, 5000, every=2, keep=1)
    server.wait_step(run_id, 1)
    assert server.client.post(f"/runs/{run_id}/checkpoint").status_code == 202
    first = wait_for(lambda: server.get(f"/runs/{run_id}/checkpoints")["checkpoints"], "a checkpoint is written")[0]
    # It may be rotated away before it is pinned: then the next one is.
    pinned = wait_for(lambda: pin_newest(server, run_id), "a checkpoint is pinned")
    assert pinned >= first["step"]
    server.wait_step(run_id, pinned + 8)
    server.post(f"/runs/{run_id}/stop")
    server.wait_state(run_id, "stopped")
    left = server.get(f"/runs/{run_id}/checkpoints")["checkpoints"]
    assert [(one["step"] == pinned, one["pinned"], one["broken"]) for one in left] == [
        (True, True, ""), (False, False, "")
    ]  # fmt: skip
    assert server.client.post(f"/runs/{run_id}/checkpoint").status_code == 409
    assert server.client.post(f"/runs/{run_id}/checkpoints/99999/pin").status_code == 404
    answer = server.client.delete(f"/runs/{run_id}/checkpoints/{pinned}/pin").json()["checkpoints"]
    assert [one["pinned"] for one in answer] == [False, False]


def pin_newest(server: ServerProcess, run_id: str) -> int | None:
    listed = server.get(f"/runs/{run_id}/checkpoints")["checkpoints"]
    if not listed:
        return None
    step = listed[-1]["step"]
    return step if server.client.post(f"/runs/{run_id}/checkpoints/{step}/pin").status_code == 200 else None


def test_broken_checkpoints_are_listed_as_such_and_skipped(server: ServerProcess) -> None:
    run_id = submit(server, 9, every=3)
    server.wait_state(run_id, "finished")
    folder = server.home / "runs" / run_id / "checkpoints"
    (folder / "9" / "manifest.json").unlink()
    listed = server.get(f"/runs/{run_id}/checkpoints")["checkpoints"]
    assert [(one["step"], one["broken"][:24]) for one in listed] == [(3, ""), (6, ""), (9, "manifest.json is missing")]
    assert server.get(f"/runs/{run_id}")["checkpoints"] == listed
    server.post(f"/runs/{run_id}/resume", {"set": {"training.optimizer_steps": 10}})
    server.wait_state(run_id, "finished")
    (resumed,) = [event for event in server.all_events(run_id) if event.get("kind") == "resumed"]
    assert resumed["data"]["step"] == 6
    warnings = server.get(f"/runs/{run_id}/logs", level="warning", q="is skipped")["lines"]
    assert "9 is skipped: manifest.json is missing" in warnings[0]["message"]
    after = server.get(f"/runs/{run_id}/checkpoints")["checkpoints"]
    assert [(one["step"], one["broken"]) for one in after] == [(6, ""), (9, ""), (10, "")]
    assert (folder / "9.set-aside-1").is_dir(), "what can't be told to be the run's own is never removed"


# -- the command line


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def only_run(home: Path) -> Path:
    return next((home / "runs").iterdir())


def asked(home: Path, *arguments: str) -> Any:
    done = run_horizon(*arguments, "--json", home=home)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_run_interrupted_goes_on_with_resume_to_its_end(home: Path, tmp_path: Path) -> None:
    path = write_spec(tmp_path / "spec", training={"optimizer_steps": 60})
    process = start_horizon("run", path, home=home, step_s=0.05)
    wait_until(lambda: any('"metrics"' in p.read_text() for p in home.glob("runs/*/journal.jsonl")), "a step is done")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    run_id = only_run(home).name
    done = run_horizon("run", "--resume", run_id, home=home)
    assert done.exit_code == 0, done.stderr
    assert "resumed from the checkpoint of optimizer step" in done.stderr
    assert "finished after 60 optimizer steps" in done.stdout
    assert states(only_run(home)) == ["running", "stopped", "running", "finished"]


def test_run_whose_command_and_worker_are_both_killed_goes_on_with_resume(home: Path, tmp_path: Path) -> None:
    path = write_spec(tmp_path / "spec", training={"optimizer_steps": 30}, checkpoint={"every": 5})
    process = start_horizon("run", path, home=home, step_s=0.05)
    wait_until(lambda: any((p / "checkpoints" / "5").exists() for p in home.glob("runs/*")), "a checkpoint is written")
    process.kill()
    process.communicate()
    worker = json.loads((only_run(home) / "worker.json").read_text())["pid"]
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not is_alive(worker), "the worker is gone")
    body = asked(home, "run", "--resume", only_run(home).name)
    assert (body["state"], body["optimizer_steps"]) == ("finished", 30)


def test_finished_run_needs_more_steps_to_go_on_and_gets_them_with_set(home: Path, tmp_path: Path) -> None:
    assert run_horizon("run", write_spec(tmp_path / "spec"), home=home).exit_code == 0
    run_id = only_run(home).name
    done = run_horizon("run", "--resume", run_id, home=home)
    assert done.exit_code == 1
    assert "all 5 optimizer steps are done. To go on, set training.optimizer_steps to more" in done.stderr
    refused = run_horizon("run", "--resume", run_id, "--set", "data.seed=1", home=home)
    assert refused.exit_code == 2
    assert "data.seed: can't be changed when a run goes on" in refused.stderr
    body = asked(home, "run", "--resume", run_id, "--set", "training.optimizer_steps=8")
    assert (body["id"], body["state"], body["optimizer_steps"]) == (run_id, "finished", 8)


def test_runs_verbs_list_and_pin_checkpoints_and_queue_a_run_again(home: Path, tmp_path: Path) -> None:
    assert run_horizon("run", write_spec(tmp_path / "spec", checkpoint={"every": 2}), home=home).exit_code == 0
    run_id = only_run(home).name
    assert [one["step"] for one in asked(home, "runs", "checkpoints", run_id)["checkpoints"]] == [2, 4, 5]
    pinned = asked(home, "runs", "pin", run_id, "2")["checkpoints"]
    assert [one["pinned"] for one in pinned] == [True, False, False]
    assert "step 2" in (text := run_horizon("runs", "checkpoints", run_id, home=home).stdout)
    assert "pinned" in text.splitlines()[0]
    assert not any(one["pinned"] for one in asked(home, "runs", "pin", run_id, "2", "--off")["checkpoints"])
    queued = asked(home, "runs", "resume", run_id, "--set", "training.optimizer_steps=6")
    assert (queued["state"], queued["reason"]) == ("queued", "goes on from the checkpoint of step 5")
    nothing = run_horizon("runs", "checkpoint", run_id, home=home)
    assert (nothing.exit_code, "nothing to save" in nothing.stderr) == (1, True)
