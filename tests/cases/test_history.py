"""The history while others hold it: nothing is lost, nothing stops, readers go on."""

import json
import sqlite3
import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.commands import run_horizon
from tests.support.server import ServerProcess, furnish_home, wait_for

# -- E01: database is locked

STEPS, READERS, ROUNDS = 100, 20, 3


@contextmanager
def held(home: Path) -> Generator[None]:
    """The database as another process holds it that is in the middle of a write."""
    other = sqlite3.connect(home / "horizon.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def read_all(server: ServerProcess, run_id: str) -> list[int]:
    """Status codes of one client's look at everything, some times over."""
    paths = ["/runs?q=name:run or loss < 2", f"/runs/{run_id}", f"/runs/{run_id}/metrics", f"/runs/{run_id}/logs"]
    with httpx.Client(base_url=f"{server.url}/api/v1", trust_env=False, timeout=30.0) as client:
        return [client.get(path).status_code for _ in range(ROUNDS) for path in paths]


@pytest.mark.parametrize("wait_s", ["0.2", "30"])
def test_database_held_while_a_run_logs_each_step_and_twenty_clients_read_loses_nothing_and_stops_nobody(
    tmp_path: Path, wait_s: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """With a wait that ends before the hold does, so that the server has to try again; and with the usual one."""
    home = furnish_home(tmp_path / "home")
    with ServerProcess(home, HORIZON_DATABASE_WAIT_S=wait_s) as server:
        run_id = server.submit(steps=STEPS, step_s=0.02)
        server.wait_step(run_id, 2)
        with held(home):
            with ThreadPoolExecutor(READERS) as readers:
                answers = [readers.submit(read_all, server, run_id) for _ in range(READERS)]
            assert {code for answer in answers for code in answer.result()} == {200}
            listed = run_horizon("runs", "list", "--json", home=home)
            assert listed.exit_code == 0 and json.loads(listed.stdout)["total"] == 1
            wait_for((home / "runs" / run_id / "exit.json").exists, "the run goes on while the database is held")
            assert server.get(f"/runs/{run_id}")["step"] < STEPS
        run = server.wait_state(run_id, "finished")
        series = server.get(f"/runs/{run_id}/metrics", keys="train/loss")["series"]["train/loss"]
        assert series["x"] == list(range(1, STEPS + 1)) and run["step"] == STEPS
        assert server.get(f"/runs/{run_id}/logs", level="warning")["lines"] == []
    assert "Traceback" not in capfd.readouterr().err


def test_write_of_a_client_waits_for_a_held_database_and_is_done_when_it_is_free(tmp_path: Path) -> None:
    home = furnish_home(tmp_path / "home")
    with ServerProcess(home) as server, ThreadPoolExecutor(2) as clients:
        run_id = server.submit(steps=10_000, step_s=0.02)
        server.wait_step(run_id, 1)
        sent = threading.Barrier(3)

        def send(method: str, path: str, body: dict[str, object]) -> int:
            sent.wait()
            return httpx.request(method, f"{server.url}/api/v1{path}", json=body, trust_env=False).status_code

        with held(home):
            renamed: Future[int] = clients.submit(send, "PATCH", f"/runs/{run_id}", {"name": "renamed meanwhile"})
            stopped: Future[int] = clients.submit(send, "POST", f"/runs/{run_id}/stop", {"save": True})
            sent.wait()
            assert {code for _ in range(ROUNDS) for code in read_all(server, run_id)} == {200}
            assert not renamed.done() and not stopped.done()
        assert (renamed.result(), stopped.result()) == (200, 202)
        run = server.wait_state(run_id, "stopped")
        assert run["name"] == "renamed meanwhile"


def test_history_without_a_server_is_read_while_it_is_held_and_a_write_says_who_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = furnish_home(tmp_path / "home")
    with ServerProcess(home) as server:
        run_id = server.submit(steps=2)
        server.wait_state(run_id, "finished")
    monkeypatch.setenv("HORIZON_DATABASE_WAIT_S", "0.1")
    with held(home):
        shown = run_horizon("runs", "show", run_id, "--json", home=home)
        assert shown.exit_code == 0 and json.loads(shown.stdout)["step"] == 2
        refused = run_horizon("runs", "delete", run_id, "--yes", home=home)
        assert refused.exit_code == 1
        assert "others held the database" in refused.stderr and "0.1 s" in refused.stderr
    assert run_horizon("runs", "delete", run_id, "--yes", home=home).exit_code == 0
