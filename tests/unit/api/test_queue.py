"""Queues over REST."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.support.server import scripted_spec


def held(client: TestClient, **changes: Any) -> str:
    answer = client.post("/api/v1/runs", json={"spec": {**scripted_spec(), **changes}, "start": False})
    assert answer.status_code == 201
    return answer.json()["id"]


def queued(client: TestClient) -> list[str]:
    (queue,) = client.get("/api/v1/queue").json()["devices"]
    assert queue["device"] == "cpu"
    return [run["id"] for run in queue["queued"]]


def test_queue_without_runs_is_empty(client: TestClient) -> None:
    assert client.get("/api/v1/queue").json() == {"devices": []}


def test_run_shows_its_place_and_device(client: TestClient) -> None:
    first, second = held(client), held(client)
    run = client.get(f"/api/v1/runs/{second}").json()
    assert (run["held"], run["queue_device"], run["queue_position"]) == (True, "cpu", 2)
    listed = client.get("/api/v1/runs?sort=created_at").json()["runs"]
    assert {run["id"]: run["queue_position"] for run in listed} == {first: 1, second: 2}
    assert client.post(f"/api/v1/runs/{first}/stop").json()["queue_position"] is None
    assert client.get(f"/api/v1/runs/{second}").json()["queue_position"] == 1


def test_move_by_position_and_before_another(client: TestClient) -> None:
    a, b, c = held(client), held(client), held(client)
    answer = client.post(f"/api/v1/runs/{c}/move", json={"position": 1})
    assert (answer.status_code, answer.json()["queue_position"]) == (202, 1)
    assert client.post(f"/api/v1/runs/{c}/move", json={"before": b}).status_code == 202
    assert queued(client) == [a, c, b]
    client.post(f"/api/v1/runs/{a}/move", json={"before": None})
    assert queued(client) == [c, b, a]


@pytest.mark.parametrize("body", [{}, {"position": 0}, {"position": 1, "before": None}, {"before": 7}])
def test_move_without_one_plain_place_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    assert client.post(f"/api/v1/runs/{held(client)}/move", json=body).status_code == 422


def test_hold_of_a_run_that_has_ended_is_refused_with_its_state(client: TestClient) -> None:
    run_id = held(client)
    client.post(f"/api/v1/runs/{run_id}/stop")
    for action, body in (("hold", None), ("start", None), ("move", {"position": 1})):
        answer = client.post(f"/api/v1/runs/{run_id}/{action}", json=body)
        assert (answer.status_code, answer.json()["type"]) == (409, "horizon:run-not-queued")
        assert "stopped" in answer.json()["detail"]
