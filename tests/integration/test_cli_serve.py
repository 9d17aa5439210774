"""`horizon serve` as a whole process, with the fake engine."""

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.commands import run_horizon, start_horizon, write_spec
from tests.support.run_folders import states, wait_until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@contextlib.contextmanager
def serving(home: Path, *options: str, step_s: float = 0.01) -> "Generator[tuple[subprocess.Popen[str], str]]":
    process = start_horizon("serve", *options, home=home, step_s=step_s)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"{line!r} {process.stderr.read() if process.stderr and not line else ''}"
        yield process, found.group()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def test_serve_with_a_free_port_answers_at_the_address_it_prints(home: Path) -> None:
    with serving(home, "--port", "0") as (process, url):
        assert httpx.get(f"{url.rstrip('/')}/api/v1/healthz").json()["status"] == "ok"
        assert (home / "server.json").exists()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert not (home / "server.json").exists()


def test_serve_stopped_by_ctrl_c_leaves_the_run_running_and_says_so(home: Path) -> None:
    write_spec(home)
    with serving(home, "--port", "0", step_s=0.05) as (process, url):
        spec = {
            "model": {"path": "model", "init": "random"},
            "data": {"path": "corpus.txt"},
            "training": {"optimizer_steps": 60},
        }
        run = httpx.post(f"{url.rstrip('/')}/api/v1/runs", json={"spec": spec}).raise_for_status().json()
        run_dir = home / "runs" / run["id"]
        wait_until(lambda: states(run_dir) == ["running"], "the run runs")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert f"run {run['id']}" in err
    assert "goes on without the server" in err
    wait_until(lambda: states(run_dir) == ["running", "finished"], "the run finishes by itself")


def test_runs_verbs_with_a_server_go_through_it(home: Path) -> None:
    write_spec(home)
    with serving(home, "--port", "0") as (_, url):
        body = {
            "model": {"path": "model", "init": "random"},
            "data": {"path": "corpus.txt"},
            "training": {"optimizer_steps": 100_000},
        }
        run = httpx.post(f"{url.rstrip('/')}/api/v1/runs", json={"spec": body}).raise_for_status().json()
        run_dir = home / "runs" / run["id"]
        wait_until(lambda: states(run_dir) == ["running"], "the run runs")
        refused = run_horizon("runs", "delete", run["id"], home=home)
        assert refused.exit_code == 1
        assert "stop it first" in refused.stderr
        stopped = run_horizon("runs", "stop", run["id"], home=home)
        assert stopped.exit_code == 0, stopped.stderr
        wait_until(lambda: states(run_dir) == ["running", "stopped"], "the run stops")
        wait_until(lambda: "stopped" in run_horizon("runs", "list", home=home).stdout, "the server knows")
        assert run_horizon("runs", "delete", run["id"], home=home).exit_code == 0


def test_queue_clone_and_archive_verbs_with_a_server_go_through_it(home: Path) -> None:
    write_spec(home)

    def asked(*arguments: str) -> Any:
        done = run_horizon("runs", *arguments, "--json", home=home)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    with serving(home, "--port", "0") as (_, url):
        api = f"{url.rstrip('/')}/api/v1/runs"
        body = {"model": {"path": "model", "init": "random"}, "data": {"path": "corpus.txt"}}
        source = httpx.post(api, json={"spec": body, "start": False}).raise_for_status().json()["id"]
        copy = asked("clone", source, "--no-start", "--name", "copy", "--set", "training.learning_rate=1.0e-3")
        assert (copy["cloned_from"], copy["name"], copy["held"]) == (source, "copy", True)
        assert asked("move", copy["id"], "--position", "1")["queue_position"] == 1
        assert asked("move", copy["id"], "--last")["queue_position"] == 2
        assert asked("hold", source)["held"]
        (queue,) = asked("queue")["devices"]
        assert [run["id"] for run in queue["queued"]] == [source, copy["id"]]
        asked("stop", copy["id"])
        assert asked("archive", copy["id"])["archived_at"] is not None
        assert [run["id"] for run in asked("list")["runs"]] == [source]
        assert [run["id"] for run in asked("list", "--archived")["runs"]] == [copy["id"]]
        assert asked("unarchive", copy["id"])["archived_at"] is None
        events = httpx.get(f"{api}/{copy['id']}/events").json()["events"]
        assert {event.get("who") or event["data"]["who"] for event in events} == {"command line"}
        assert asked("delete", copy["id"]) == {"id": copy["id"], "freed_bytes": 0, "left_bytes": 0, "left_in": ""}


def test_run_beside_a_server_is_seen_by_it(home: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec")
    with serving(home, "--port", "0") as (_, url):
        done = run_horizon("run", spec, home=home)
        assert done.exit_code == 0, done.stderr
        runs = httpx.get(f"{url.rstrip('/')}/api/v1/runs").json()["runs"]
        assert [run["state"] for run in runs] == ["finished"]
        series = httpx.get(f"{url.rstrip('/')}/api/v1/runs/{runs[0]['id']}/metrics?keys=train/loss").json()["series"]
        assert series["train/loss"]["x"] == [1, 2, 3, 4, 5]
