"""`horizon run` and `horizon runs` as whole processes, without a server, with the fake engine."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_horizon, start_horizon, write_spec
from tests.support.run_folders import states, wait_until

KEYS = ["id", "state", "reason", "optimizer_steps", "metrics", "peak", "seconds"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def only_run(home: Path) -> Path:
    return next((home / "runs").iterdir())


def has_step(home: Path) -> bool:
    return any('"metrics"' in path.read_text() for path in home.glob("runs/*/journal.jsonl"))


def test_run_to_the_end_exits_0_and_says_where_the_model_is(home: Path, tmp_path: Path) -> None:
    done = run_horizon("run", write_spec(tmp_path / "my 规格"), home=home)
    assert done.exit_code == 0, done.stderr
    assert "finished after 5 optimizer steps" in done.stdout
    assert "hit rate     75.0% (optimum without prefetch 50.0%)" in done.stdout
    model = only_run(home) / "checkpoints" / "5"
    assert str(model) in done.stdout
    assert (model / "config.json").exists()


def test_run_with_json_prints_exactly_one_object(home: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec")
    done = run_horizon("run", spec, "--json", "--set", "training.optimizer_steps=3", "--set", "name=named", home=home)
    assert done.exit_code == 0, done.stderr
    body = json.loads(done.stdout)
    assert list(body) == KEYS
    assert (body["id"], body["state"], body["optimizer_steps"]) == (only_run(home).name, "finished", 3)
    assert body["metrics"]["train/loss"] == pytest.approx(4.0 / 3)
    assert body["peak"]["device_blocks"] == 4


def test_run_whose_engine_fails_exits_1_with_the_reason(home: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec", model="broken")
    done = run_horizon("run", spec, home=home)
    assert done.exit_code == 1
    assert "building the engine: the model in broken has 3 layers of 0 parameters" in done.stdout
    assert "worker.log" in done.stdout
    as_json = run_horizon("run", spec, "--json", home=home)
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["state"] == "failed"


def test_run_of_a_bad_spec_exits_2_and_names_file_line_and_field(home: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec")
    spec.write_text(spec.read_text() + "offload:\n  polcy: lru\n")
    line = len(spec.read_text().splitlines())
    done = run_horizon("run", spec, home=home)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert f"{spec}:{line}: offload.polcy: unknown key 'polcy' (did you mean offload.policy?)" in done.stderr


def test_run_of_a_model_that_is_not_there_exits_2_at_its_line(home: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec")
    spec.write_text(spec.read_text().replace('"model"', '"elsewhere"'))
    done = run_horizon("run", spec, home=home)
    assert done.exit_code == 2
    assert f"{spec}:1: model.path: " in done.stderr
    assert "elsewhere" in done.stderr


def test_run_of_a_bad_spec_with_json_still_prints_one_object(home: Path, tmp_path: Path) -> None:
    done = run_horizon("run", write_spec(tmp_path / "spec"), "--json", "--set", "trainin.seed=1", home=home)
    assert done.exit_code == 2
    body = json.loads(done.stdout)
    assert list(body) == KEYS
    assert body["id"] is None
    assert "trainin" in body["reason"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_interrupted_saves_stops_and_exits_130(number: signal.Signals, home: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec", training={"optimizer_steps": 100_000})
    process = start_horizon("run", spec, "--json", home=home)
    wait_until(lambda: has_step(home), "a step is done")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    body = json.loads(out)
    assert body["state"] == "stopped"
    assert (only_run(home) / "checkpoints" / str(body["optimizer_steps"]) / "config.json").exists()


def test_run_interrupted_twice_ends_at_once(home: Path, tmp_path: Path) -> None:
    process = start_horizon("run", write_spec(tmp_path / "spec"), "--json", home=home, step_s=600)
    wait_until(lambda: any(states(path) == ["running"] for path in home.glob("runs/*")), "the run runs")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: (only_run(home) / "commands.jsonl").exists(), "the stop is on its way")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert json.loads(out)["state"] in {"interrupted", "stopped"}


def test_run_behind_a_live_one_says_whom_it_waits_for_and_then_runs(home: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec", training={"optimizer_steps": 300})
    first = start_horizon("run", spec, home=home)
    wait_until(lambda: has_step(home), "the first run runs")
    first_id = only_run(home).name
    second = run_horizon("run", spec, "--set", "training.optimizer_steps=2", home=home)
    first.communicate(timeout=30)
    assert first.returncode == 0
    assert second.exit_code == 0, second.stderr
    assert f"it waits for run {first_id}" in second.stderr
    assert "finished after 2" in second.stdout


def test_runs_verbs_without_a_server_list_show_stop_and_delete(home: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec", name="first one")
    assert run_horizon("run", spec, home=home).exit_code == 0
    run_id = only_run(home).name

    def asked(*arguments: str) -> Any:
        done = run_horizon("runs", *arguments, "--json", home=home)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    page = asked("list", "--state", "finished")
    assert [run["id"] for run in page["runs"]] == [run_id]
    assert set(page) >= {"runs", "next_cursor"}
    assert asked("show", run_id)["outcome"]["state"] == "finished"
    assert "first one" in run_horizon("runs", "list", home=home).stdout
    assert "finished after 5" in run_horizon("runs", "show", run_id, home=home).stdout
    stop = run_horizon("runs", "stop", run_id, home=home)
    assert stop.exit_code == 1
    assert "there is nothing to stop" in stop.stderr
    assert asked("delete", run_id)["freed_bytes"] > 0
    assert not (home / "runs" / run_id).exists()
    missing = run_horizon("runs", "show", run_id, home=home)
    assert missing.exit_code == 1
    assert "there is no run" in missing.stderr


def test_runs_verbs_without_a_server_clone_order_archive_and_delete(home: Path, tmp_path: Path) -> None:
    assert run_horizon("run", write_spec(tmp_path / "spec", name="first one"), home=home).exit_code == 0
    source = only_run(home).name

    def asked(*arguments: str) -> Any:
        done = run_horizon("runs", *arguments, "--json", home=home)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    a = asked("clone", source, "--set", "training.learning_rate=1.0e-3", "--name", "second one")
    b = asked("clone", source, "--no-start")
    assert (a["cloned_from"], a["name"], a["spec"]["training"]["learning_rate"]) == (source, "second one", 1e-3)
    assert (b["name"], b["held"], b["queue_position"]) == ("first one", True, 2)
    assert asked("move", b["id"], "--before", a["id"])["queue_position"] == 1
    assert asked("move", b["id"], "--last")["queue_position"] == 2
    assert asked("move", b["id"], "--position", "1")["queue_position"] == 1
    assert run_horizon("runs", "move", b["id"], home=home).exit_code == 2
    assert not asked("start", b["id"])["held"] and asked("hold", a["id"])["held"]
    (queue,) = asked("queue")["devices"]
    assert [run["id"] for run in queue["queued"]] == [b["id"], a["id"]]
    assert f"2 {a['id']}  second one (held)" in run_horizon("runs", "queue", home=home).stdout
    assert run_horizon("runs", "hold", source, home=home).exit_code == 1
    assert asked("archive", source)["archived_at"] is not None
    assert source not in run_horizon("runs", "list", home=home).stdout
    assert [run["id"] for run in asked("list", "--archived")["runs"]] == [source]
    assert asked("list", "--all")["total"] == 3
    assert asked("unarchive", source)["archived_at"] is None
    asked("pin", source, "5")
    refused = run_horizon("runs", "delete", source, home=home)
    assert refused.exit_code == 1 and "step 5 are pinned" in refused.stderr and "--pinned" in refused.stderr
    assert asked("delete", source, "--pinned")["freed_bytes"] > 0
    asked("delete", a["id"])
    assert asked("list")["total"] == 1
