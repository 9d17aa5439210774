"""Clone, archive, delete and stop over REST."""

from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from horizon_app.control.workstation import Workstation
from tests.support.server import scripted_spec

RUNS = "/api/v1/runs"


def held(client: TestClient, **changes: Any) -> str:
    answer = client.post(RUNS, json={"spec": {**scripted_spec(), **changes}, "start": False})
    assert answer.status_code == 201
    return answer.json()["id"]


def stopped(client: TestClient) -> str:
    run_id = held(client)
    assert client.post(f"{RUNS}/{run_id}/stop").status_code == 202
    return run_id


def test_key_that_made_another_run_is_refused_by_name(client: TestClient) -> None:
    key = {"idempotency-key": "k"}
    first = client.post(RUNS, json={"spec": scripted_spec(), "start": False}, headers=key).json()["id"]
    answer = client.post(RUNS, json={"spec": scripted_spec(9), "start": False}, headers=key)
    assert (answer.status_code, answer.json()["type"]) == (422, "horizon:key-reused")
    assert first in answer.json()["detail"]
    assert client.get(RUNS).json()["total"] == 1


def test_clone_is_found_where_the_location_says_and_once_for_one_key(client: TestClient) -> None:
    source = held(client, name="first")
    body = {"set": {"training.learning_rate": 1e-3}, "name": "second", "start": False}
    answers = [client.post(f"{RUNS}/{source}/clone", json=body, headers={"idempotency-key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    copy = client.get(answers[0].headers["location"]).json()
    assert copy == answers[1].json()
    assert (copy["cloned_from"], copy["name"], copy["held"]) == (source, "second", True)
    assert copy["spec"]["training"]["learning_rate"] == 1e-3
    assert copy["asked"]["training"] == {"optimizer_steps": 5, "learning_rate": 1e-3}


def test_clone_that_can_not_run_is_refused_by_field(client: TestClient) -> None:
    answer = client.post(f"{RUNS}/{held(client)}/clone", json={"set": {"training.optimizer_stepz": 3}})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["training.optimizer_stepz"]
    assert client.post(f"{RUNS}/20260101-000000-abcdef/clone").status_code == 404


def test_archived_run_leaves_the_list_and_comes_back(client: TestClient) -> None:
    run_id = stopped(client)
    assert client.post(f"{RUNS}/{run_id}/archive").json()["archived_at"].endswith("Z")
    totals = {word: client.get(f"{RUNS}?archived={word}").json()["total"] for word in ("false", "true", "all")}
    assert totals == {"false": 0, "true": 1, "all": 1}
    assert client.get(f"{RUNS}/{run_id}").status_code == 200
    assert client.post(f"{RUNS}/{run_id}/unarchive").json()["archived_at"] is None
    assert client.get(RUNS).json()["total"] == 1
    assert client.post(f"{RUNS}/{held(client)}/archive").status_code == 409


def test_delete_asks_where_a_checkpoint_is_pinned(client: TestClient, station: Workstation) -> None:
    run_id = stopped(client)
    checkpoint = station.settings.runs_dir / run_id / "checkpoints" / "5"
    checkpoint.mkdir(parents=True)
    (checkpoint / "pinned").touch()
    answer = client.delete(f"{RUNS}/{run_id}")
    assert (answer.status_code, answer.json()["type"]) == (409, "horizon:checkpoint-pinned")
    (error,) = answer.json()["errors"]
    assert error["field"] == "pinned" and "step 5" in error["message"] and "pinned=delete" in error["fix"]
    assert checkpoint.is_dir()
    answer = client.delete(f"{RUNS}/{run_id}?pinned=delete")
    assert (answer.status_code, answer.json()["left_bytes"]) == (200, 0)
    assert client.get(f"{RUNS}/{run_id}").status_code == 404 and not checkpoint.exists()


@pytest.fixture
def station(client: TestClient, app: FastAPI) -> Workstation:
    return app.state.workstation
