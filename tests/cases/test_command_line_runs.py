"""Runs whose workers die, do not stop or are not read, as the command line starts, watches and stops them."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from horizon_app.control import launcher, machine, supervisor
from horizon_app.control.memory import Memory
from tests.cases.test_server_safety import strict
from tests.support.commands import run_horizon, start_horizon, write_spec
from tests.support.run_folders import read_journal
from tests.support.server import ServerProcess, furnish_home, is_alive, wait_for

MIB = 1 << 20
SCRIPTED, SLOW = "tests.support.scripted_worker", "tests.support.slow_worker"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(furnish_home(tmp_path_factory.mktemp("shared") / "home")) as process:
        yield process


def only_run(home: Path) -> Path:
    return wait_for(lambda: next((home / "runs").glob("2*"), None), "a run has a folder")


def kill_worker(run_dir: Path) -> None:
    psutil.Process(json.loads((run_dir / "worker.json").read_text())["pid"]).kill()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Exit code, what is left of standard output, and standard error, which is short."""
    assert process.stdout is not None and process.stderr is not None
    with process, process.stdout, process.stderr:
        out = process.stdout.read()
        return process.wait(timeout=60), out, process.stderr.read()


# -- E04: the worker dies


def test_e04_foreground_run_whose_worker_is_killed_exits_1_names_all_and_goes_on_when_resumed(
    home: Path, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path / "spec", training={"optimizer_steps": 40}, checkpoint={"every": 5})
    running = start_horizon("run", spec, "--json", home=home, step_s=0.2)
    run_dir = only_run(home)
    wait_for(
        lambda: any(event.type == "checkpoint" for event in read_journal(run_dir)),
        "a checkpoint is written and told of",
    )
    kill_worker(run_dir)
    code, out, err = ended(running)
    body = strict(out)
    assert (code, body["state"], body["id"]) == (1, "interrupted", run_dir.name), err
    for words in ("signal 9 (SIGKILL)", "optimizer steps done", "last checkpoint at step "):
        assert words in body["reason"]
    shown = strict(run_horizon("runs", "show", run_dir.name, "--json", home=home).stdout)
    assert (shown["cause"], shown["exit_status"], shown["resumable"]) == ("signal", -9, True)
    again = run_horizon("run", "--resume", run_dir.name, home=home)
    assert again.exit_code == 0, again.stderr
    assert "resumed from the checkpoint of optimizer step " in again.stderr
    assert "finished after 40 optimizer steps" in again.stdout


def test_e04_watched_run_whose_worker_is_killed_ends_the_watching_with_1_and_the_reason(
    server: ServerProcess,
) -> None:
    run_id = server.submit(10_000, step_s=0.02)
    watching = start_horizon("runs", "watch", run_id, "--json", "--after", "0", home=server.home)
    assert watching.stdout is not None
    assert strict(watching.stdout.readline())["seq"] == 1
    server.wait_step(run_id, 1)
    kill_worker(server.home / "runs" / run_id)
    code, out, err = ended(watching)
    assert (code, err) == (1, "")
    frames = [strict(line) for line in out.splitlines()]
    last = [frame for frame in frames if frame["type"] == "state"][-1]
    assert last["state"] == "interrupted" and "signal 9 (SIGKILL)" in last["reason"]
    assert [frame["seq"] for frame in frames] == list(range(2, len(frames) + 2))


# -- E06: stop does not stop


def start_loading(home: Path, folder: Path, **script: Any) -> "tuple[subprocess.Popen[str], Path]":
    """A run in the foreground whose worker loads for a minute and has started others; gives its folder too."""
    spec = write_spec(folder, notes=json.dumps({"slow": "load", "children": True, **script}))
    running = start_horizon("run", spec, "--json", home=home, worker=SLOW)
    run_dir = only_run(home)
    wait_for((run_dir / "phase").exists, "the worker loads")
    return running, run_dir


def see_it_gone(run_dir: Path) -> None:
    for pid in json.loads((run_dir / "children.json").read_text()):
        wait_for(lambda pid=pid: not is_alive(pid), "what the worker started has ended")


def test_e06_run_stopped_twice_from_another_terminal_while_it_loads_ends_with_all_that_it_started(
    home: Path, tmp_path: Path
) -> None:
    running, run_dir = start_loading(home, tmp_path / "spec")
    first, second = (run_horizon("runs", "stop", run_dir.name, "--no-save", home=home) for _ in range(2))
    assert (first.exit_code, first.stdout) == (0, f"{run_dir.name} is stopping\n")
    assert second.exit_code == 0 or "is stopped: there is nothing to stop" in second.stderr
    code, out, err = ended(running)
    assert (code, strict(out)["state"]) == (130, "stopped"), err
    see_it_gone(run_dir)
    third = run_horizon("runs", "stop", run_dir.name, home=home)
    assert third.exit_code == 1 and "is stopped: there is nothing to stop" in third.stderr


def test_e06_deaf_foreground_run_interrupted_twice_ends_at_once_with_all_that_it_started(
    home: Path, tmp_path: Path
) -> None:
    running, run_dir = start_loading(home, tmp_path / "spec", deaf=True)
    running.send_signal(signal.SIGINT)
    wait_for((run_dir / "commands.jsonl").exists, "the first Ctrl-C has come")
    running.send_signal(signal.SIGINT)
    code, out, err = ended(running)
    assert (code, strict(out)["state"] in ("stopped", "interrupted")) == (130, True), err
    see_it_gone(run_dir)


# -- E07: nobody reads


def test_e07_watch_that_nobody_reads_holds_up_no_run_and_misses_no_line(server: ServerProcess) -> None:
    run_id = server.submit(150, step_s=0, log_bytes=4000)
    watching = start_horizon("runs", "watch", run_id, "--json", "--after", "0", home=server.home)
    run = server.wait_state(run_id, "finished")
    assert run["step"] == 150 and watching.poll() is None
    code, out, err = ended(watching)
    assert (code, err) == (0, "")
    assert len(out) > 512 << 10
    assert [strict(line)["seq"] for line in out.splitlines()] == list(range(1, run["last_seq"] + 1))


# -- D08: host memory runs out


def test_d08_foreground_run_that_the_kernel_killed_for_memory_exits_1_with_peak_and_limit(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = Memory(total_bytes=4096 * MIB, available_bytes=MIB, is_limited=True)
    monkeypatch.setattr(supervisor, "memory_here", lambda: limit)
    monkeypatch.setattr(launcher, "oom_kills", lambda: 3)
    monkeypatch.setattr(supervisor, "oom_kills", lambda: 4)
    spec = write_spec(tmp_path / "spec", notes=json.dumps({"die_at": 4}))
    done = run_horizon("run", spec, home=home, worker=SCRIPTED)
    assert done.exit_code == 1
    for words in (
        "why          ", "signal 9 (SIGKILL), probably for memory", "its control group may hold 4 GiB",
        "3 optimizer steps done", "worker.log",
    ):  # fmt: skip
        assert words in done.stdout
    shown = strict(run_horizon("runs", "show", only_run(home).name, "--json", home=home).stdout)
    assert (shown["cause"], shown["state"], shown["resumable"]) == ("out_of_memory", "interrupted", True)


def test_d08_run_that_needs_more_than_the_control_group_may_hold_exits_2_before_it_starts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = Memory(total_bytes=16 * MIB, available_bytes=MIB, is_limited=True)
    monkeypatch.setattr(machine, "memory_here", lambda: limit)
    spec = write_spec(tmp_path / "spec", offload={"disk": "off"})
    config = tmp_path / "spec" / "model" / "config.json"
    config.write_text(config.read_text().replace('"vocab_size": 256', '"vocab_size": 65536'))
    done = run_horizon("run", spec, "--json", home=home)
    assert done.exit_code == 2
    assert "offload." in done.stderr and "16.00 MiB" in done.stderr
    assert strict(done.stdout)["id"] is None
    assert strict(run_horizon("runs", "list", "--json", home=home).stdout)["total"] == 0
