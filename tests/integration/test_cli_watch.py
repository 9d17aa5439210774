"""`horizon runs watch` on a run of a real server that dies, comes back elsewhere, or never does."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_horizon, start_horizon
from tests.support.server import ServerProcess, furnish_home, scripted_spec


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that takes any free port each time."""
    with ServerProcess(furnish_home(tmp_path / "home")) as process:
        yield process


def lines_until_attached(watching: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    """The first frames, read once they come: from here on the run is watched."""
    assert watching.stdout is not None
    return [json.loads(watching.stdout.readline()) for _ in range(5)]


def test_watch_outlives_a_killed_server_that_comes_back_at_another_port(server: ServerProcess) -> None:
    run_id = server.submit(200, step_s=0.05)
    watching = start_horizon("runs", "watch", run_id, "--json", "--after", "0", home=server.home)
    first = lines_until_attached(watching)
    server.end(signal.SIGKILL)
    server.start()
    assert watching.stdout is not None and watching.stderr is not None
    with watching, watching.stdout, watching.stderr:
        frames = [*first, *map(json.loads, watching.stdout)]
        assert (watching.wait(timeout=60), watching.stderr.read()) == (0, "")
    assert frames == server.all_events(run_id)
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))


def test_watch_without_a_server_follows_the_worker_and_starts_nothing(server: ServerProcess) -> None:
    run_id, waiting = server.submit(120, step_s=0.05), server.submit(1)
    server.wait_step(run_id, 1)
    server.end(signal.SIGKILL)
    result = run_horizon("runs", "watch", run_id, home=server.home)
    assert result.exit_code == 0
    assert "\nfinished\n" in result.stdout and "after 120 optimizer steps" in result.stdout
    shown = json.loads(run_horizon("runs", "show", waiting, "--json", home=server.home).stdout)
    assert shown["state"] == "queued"


def test_watch_of_an_ended_run_says_how_it_ended_by_its_exit_code(server: ServerProcess) -> None:
    run_id = server.submit(10_000, step_s=0.02)
    server.wait_step(run_id, 1)
    server.post(f"/runs/{run_id}/stop")
    server.wait_state(run_id, "stopped")
    result = run_horizon("runs", "watch", run_id, "--json", home=server.home)
    assert result.exit_code == 130
    (snapshot,) = map(json.loads, result.stdout.splitlines())
    assert (snapshot["type"], snapshot["run"]["state"]) == ("snapshot", "stopped")


def test_watch_whose_reader_leaves_ends_quietly_and_leaves_the_run(server: ServerProcess) -> None:
    run_id = server.submit(10_000, step_s=0.02)
    watching = start_horizon("runs", "watch", run_id, "--json", "--after", "0", home=server.home)
    assert watching.stdout is not None and watching.stderr is not None
    with watching, watching.stderr:
        assert json.loads(watching.stdout.readline())["seq"] == 1
        watching.stdout.close()
        assert (watching.wait(timeout=60), watching.stderr.read()) == (1, "")
    assert server.get(f"/runs/{run_id}")["state"] == "running"
    server.post(f"/runs/{run_id}/stop")
    server.wait_state(run_id, "stopped")


def test_watch_of_everything_tells_what_changes_and_ends_when_nothing_runs_or_waits(server: ServerProcess) -> None:
    first, second = (server.post("/runs", {"spec": scripted_spec(3), "start": False})["id"] for _ in range(2))
    watching = start_horizon("runs", "watch", "--json", home=server.home)
    assert watching.stdout is not None and watching.stderr is not None
    with watching, watching.stdout, watching.stderr:
        waiting = [json.loads(watching.stdout.readline()) for _ in range(2)]
        assert [(frame["run"]["id"], frame["run"]["held"]) for frame in waiting] == [(first, True), (second, True)]
        server.client.delete(f"/runs/{second}").raise_for_status()
        server.post(f"/runs/{first}/start")
        frames = list(map(json.loads, watching.stdout))
        assert (watching.wait(timeout=60), watching.stderr.read()) == (0, "")
    assert [frame["id"] for frame in frames if frame["type"] == "gone"] == [second]
    assert [frame["run"]["state"] for frame in frames if frame["type"] == "run"][-1] == "finished"
    assert run_horizon("runs", "watch", home=server.home).stdout == "nothing runs and nothing waits\n"


def test_watch_of_an_unknown_run_fails_in_one_line(tmp_path: Path) -> None:
    result = run_horizon("runs", "watch", "20260131-120000-abcdef", "--json", home=tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "horizon: there is no run '20260131-120000-abcdef'\n"
