"""Pausing over REST: what is written for the worker, and what is refused with the state."""

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from horizon_app.contracts.commands import COMMAND, Command, ContinueRun, PauseRun
from horizon_app.contracts.run_state import RunState
from horizon_app.control.lifecycle import change_state
from horizon_app.control.workstation import Workstation
from tests.support.server import scripted_spec

_WAY = {
    "queued": (), "running": ("starting", "running"), "starting": ("starting",), "stopping": ("starting", "stopping"),
    "paused": ("starting", "running", "paused"), "stopped": ("stopped",),
}  # fmt: skip


@pytest.fixture
def station(client: TestClient, app: FastAPI) -> Workstation:
    """The app's own, while the client lives."""
    return app.state.workstation


def run_in(client: TestClient, station: Workstation, state: str) -> str:
    """A run in a state, with nobody who works on it."""
    run_id = client.post("/api/v1/runs", json={"spec": scripted_spec(), "start": False}).json()["id"]
    with station.database.write() as tx:
        for step in _WAY[state]:
            change_state(tx, run_id, RunState(step), who="test")
    return run_id


def commands(home: Path, run_id: str) -> list[Command]:
    path = home / "runs" / run_id / "commands.jsonl"
    return [COMMAND.validate_json(line) for line in path.read_bytes().splitlines()] if path.exists() else []


@pytest.mark.parametrize("state", ["running", "starting"])
def test_pause_of_a_run_that_trains_tells_its_worker_who_asked(
    client: TestClient, station: Workstation, home: Path, state: str
) -> None:
    run_id = run_in(client, station, state)
    answer = client.post(f"/api/v1/runs/{run_id}/pause", headers={"horizon-client": "ada"}, json={"save": True})
    assert (answer.status_code, answer.json()["state"]) == (202, state)
    assert commands(home, run_id) == [PauseRun(save=True, who="ada")]


@pytest.mark.parametrize("state", ["queued", "paused", "stopping", "stopped"])
def test_pause_of_any_other_run_is_refused_with_its_state(
    client: TestClient, station: Workstation, home: Path, state: str
) -> None:
    run_id = run_in(client, station, state)
    answer = client.post(f"/api/v1/runs/{run_id}/pause")
    assert answer.status_code == 409 and f"is {state}" in answer.json()["detail"]
    assert commands(home, run_id) == []


def test_resume_of_a_paused_run_tells_its_worker_to_go_on(client: TestClient, station: Workstation, home: Path) -> None:
    run_id = run_in(client, station, "paused")
    assert client.post(f"/api/v1/runs/{run_id}/resume").status_code == 202
    assert commands(home, run_id) == [ContinueRun(who="api")]


def test_resume_takes_back_a_pause_that_does_not_hold_yet_and_is_refused_where_there_is_none(
    client: TestClient, station: Workstation, home: Path
) -> None:
    run_id = run_in(client, station, "running")
    path = f"/api/v1/runs/{run_id}"

    def status(action: str, body: Any = None) -> int:
        return client.post(f"{path}/{action}", json=body).status_code

    assert status("resume") == 409
    assert (status("pause"), status("resume"), status("resume")) == (202, 202, 409)
    assert [command.type for command in commands(home, run_id)] == ["pause", "continue"]


def test_resume_of_a_paused_run_with_changes_of_its_spec_is_refused(client: TestClient, station: Workstation) -> None:
    run_id = run_in(client, station, "paused")
    answer = client.post(f"/api/v1/runs/{run_id}/resume", json={"set": {"training.optimizer_steps": 9}})
    assert answer.status_code == 409 and "paused" in answer.json()["detail"]
