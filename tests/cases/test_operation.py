"""Servers that moved to another port in silence, and times that depended on where the machine stands."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import ROOT, run_horizon, start_horizon
from tests.support.server import ServerProcess, furnish_home, wait_for
from tests.support.stores import open_store

ZONES: list[str] = json.loads((Path(__file__).parent / "inputs" / "E17" / "zones.json").read_text())
WITH_OFFSET = re.compile(r"T.*(Z|[+-]\d\d:\d\d)$")
DEFAULT_PORT = 8321


@pytest.fixture
def taken() -> Iterator[tuple[int, int]]:
    """A port that Python's own web server has, and that one's process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    web = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: is_open(port), "the web server listens")
        yield port, web.pid
    finally:
        web.kill()
        web.wait()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_e03_given_port_that_is_taken_is_refused_in_one_line_before_anything_changes(
    taken: tuple[int, int], tmp_path: Path
) -> None:
    port, holder = taken
    home = tmp_path / "home"
    with open_store(home):
        pass
    before = {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]}
    done = run_horizon("serve", "--port", str(port), home=home)
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"port {port}" in done.stderr and f"process {holder} (" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]} == before


def test_e03_default_port_that_is_taken_gives_the_next_free_one_in_plain_words_and_in_server_json(
    tmp_path: Path,
) -> None:
    with contextlib.ExitStack() as stack:
        holder = stack.enter_context(socket.socket())
        with contextlib.suppress(OSError):  # somebody else has it: as good
            holder.bind(("127.0.0.1", DEFAULT_PORT))
            holder.listen()
        process = stack.enter_context(start_horizon("serve", home=tmp_path))
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            port = int(line.strip().rpartition(":")[2])
            assert port > DEFAULT_PORT and line == f"Horizon is at http://localhost:{port}\n"
            assert json.loads((tmp_path / "server.json").read_text())["port"] == port
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=30)
    assert f"port {DEFAULT_PORT} on 127.0.0.1 is in use" in err
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--host", "nowhere.invalid"], "nowhere.invalid, port 8321: this machine can't resolve that name"),
        (["--host", "192.0.2.7"], "192.0.2.7, port 8321: no interface of this machine has that address"),
    ],
)
def test_e03_address_that_can_not_be_bound_is_one_line_and_leaves_no_home(
    options: list[str], text: str, tmp_path: Path
) -> None:
    done = run_horizon("serve", *options, home=tmp_path / "home")
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
    assert text in done.stderr
    assert not (tmp_path / "home").exists()


def check_times(run: dict[str, Any], since: datetime) -> None:
    assert WITH_OFFSET.search(run["started_at"])
    age = datetime.now(UTC) - datetime.fromisoformat(run["started_at"])
    assert 0 <= age.total_seconds() <= (datetime.now(UTC) - since).total_seconds()
    assert run["duration_s"] >= 0


def check_words(home: Path, run_id: str, *, zone: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "horizon_app", "runs", "show", run_id, "--home", str(home)],
        capture_output=True, text=True, check=True, cwd=home,
        env={**os.environ, "TZ": zone, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert re.search(r"started +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0545$", done.stdout, flags=re.MULTILINE), done.stdout


def test_e17_times_and_durations_are_the_same_in_every_time_zone(tmp_path: Path) -> None:
    home = furnish_home(tmp_path / "home")
    began = datetime.now(UTC)
    long_run, started_at, durations = "", "", [0.0]
    events: list[dict[str, Any]] = []
    for zone in ZONES:
        with ServerProcess(home, TZ=zone) as server:
            if not long_run:
                long_run = server.submit(steps=100_000)
                server.wait_step(long_run, 1)
                started_at = server.get(f"/runs/{long_run}")["started_at"]
            run = server.get(f"/runs/{long_run}")
            check_times(run, began)
            assert run["started_at"] == started_at
            durations.append(run["duration_s"])
            if zone == ZONES[-1]:
                server.post(f"/runs/{long_run}/stop")
                server.wait_state(long_run, "stopped")
                server.post(f"/runs/{long_run}/resume")
                check_times(server.wait_state(long_run, "running"), began)
                server.post(f"/runs/{long_run}/stop")
                ended = server.wait_state(long_run, "stopped")
                durations.append(ended["duration_s"])
                events = server.all_events(long_run)
                check_words(home, long_run, zone="Asia/Kathmandu")
    assert durations == sorted(durations)
    assert [event["seq"] for event in events] == [*range(1, len(events) + 1)]
    assert durations[-1] <= (datetime.now(UTC) - began).total_seconds()
