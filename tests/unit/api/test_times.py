"""Every time in every answer is UTC, ISO 8601, with Z; and every answer is strict JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.support.route_table import ways
from tests.support.server import scripted_spec, wait_for

UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
LOOKS_LIKE_A_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


def test_times_of_all_answers_are_utc_and_answers_are_strict_json(app: FastAPI, client: TestClient) -> None:
    run_id = client.post("/api/v1/runs", json={"spec": scripted_spec(3, nan_at=2)}).json()["id"]
    wait_for(lambda: client.get(f"/api/v1/runs/{run_id}").json()["state"] == "finished", "the run is finished")
    times: list[str] = []
    for way in ways(app):
        if way.method != "GET" or not way.path.startswith("/api/"):
            continue
        answer = client.get(way.path.replace("{run_id}", run_id).replace("compare", f"compare?ids={run_id}"))
        if "json" not in answer.headers["content-type"] or way.path.endswith("openapi.json"):
            continue
        body = json.loads(answer.text, parse_constant=pytest.fail)
        times += [text for text in texts(body) if LOOKS_LIKE_A_TIME.match(text)]
    assert len(times) > 10
    assert [text for text in times if not UTC.fullmatch(text)] == []
