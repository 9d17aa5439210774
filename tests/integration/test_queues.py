"""Queues of several devices with real workers: the server runs in this process and is told that it has two cards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from horizon_app.api.app import create_app
from horizon_app.control.machine import Machine
from horizon_app.planning.facts import MachineFacts
from horizon_app.settings import AppSettings
from tests.support.server import furnish_home, scripted_spec, wait_for

RUNS = "/api/v1/runs"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    def two_cards(_machine: Machine, _disk_dir: Path) -> MachineFacts:
        return MachineFacts(host_bytes=1 << 40, cuda_devices=2, disk_free_bytes=1 << 40)

    monkeypatch.setattr(Machine, "facts", two_cards)
    home = furnish_home(tmp_path / "home")
    app = create_app(AppSettings(home=home, worker_module="tests.support.scripted_worker", check_data=False))
    with TestClient(app, base_url="http://127.0.0.1:8321") as client:
        yield client
        for run in client.get(RUNS).json()["runs"]:
            client.post(f"{RUNS}/{run['id']}/stop")
        wait_for(lambda: not client.get("/api/v1/queue").json()["devices"], "everything has ended")


def submit(client: TestClient, device: str, steps: int = 10_000, **offload: Any) -> str:
    spec = {**scripted_spec(steps, step_s=0.02), "offload": {"device": device, **offload}}
    answer = client.post(RUNS, json={"spec": spec})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def wait_state(client: TestClient, run_id: str, state: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        run = client.get(f"{RUNS}/{run_id}").json()
        return run if run["state"] == state else None

    return wait_for(look, f"run {run_id} is {state}", deadline_s=60)


def queue(client: TestClient) -> dict[str, tuple[list[str], list[str]]]:
    devices = client.get("/api/v1/queue").json()["devices"]
    return {
        one["device"]: ([run["id"] for run in one["live"]], [run["id"] for run in one["queued"]]) for one in devices
    }


def test_runs_of_different_devices_run_side_by_side_and_those_of_one_in_order(client: TestClient) -> None:
    first, card, other, second = (submit(client, device) for device in ("cpu", "auto", "cuda:1", "cpu"))
    for run_id in (first, card, other):
        wait_state(client, run_id, "running")
    waiting = submit(client, "cuda")
    assert queue(client) == {"cpu": ([first], [second]), "cuda:0": ([card], [waiting]), "cuda:1": ([other], [])}
    client.post(f"{RUNS}/{card}/stop", json={"save": False})
    ended = wait_state(client, card, "stopped")
    assert wait_state(client, waiting, "running")["started_at"] >= ended["ended_at"]
    assert queue(client)["cpu"] == ([first], [second])


def test_runs_that_share_run_beside_each_other_and_a_moved_run_starts_first(client: TestClient) -> None:
    sharing = [submit(client, "cpu", share_device=True) for _ in range(2)]
    for run_id in sharing:
        wait_state(client, run_id, "running")
    early, late, held = submit(client, "cpu"), submit(client, "cpu", steps=3), submit(client, "cpu", steps=3)
    client.post(f"{RUNS}/{held}/hold")
    client.post(f"{RUNS}/{held}/move", json={"position": 1})
    client.post(f"{RUNS}/{late}/move", json={"before": early})
    assert queue(client)["cpu"] == (sharing, [held, late, early])
    for run_id in sharing:
        client.post(f"{RUNS}/{run_id}/stop")
    ended = [wait_state(client, run_id, "stopped")["ended_at"] for run_id in sharing]
    assert wait_state(client, late, "finished")["started_at"] >= max(ended)
    wait_state(client, early, "running")
    assert client.get(f"{RUNS}/{held}").json()["state"] == "queued"


def test_resumed_run_waits_before_all_others(client: TestClient) -> None:
    first = submit(client, "cpu")
    wait_state(client, first, "running")
    second, third = submit(client, "cpu"), submit(client, "cpu")
    client.post(f"{RUNS}/{third}/stop")
    client.post(f"{RUNS}/{third}/resume")
    assert queue(client)["cpu"] == ([first], [third, second])
