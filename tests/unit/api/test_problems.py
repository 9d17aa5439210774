"""Every error of every route is a problem document."""

import json
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from horizon_app.contracts.problems import Problem
from horizon_app.store.errors import DatabaseBusy
from tests.support.server import scripted_spec

NO_RUN = "20260101-000000-abcdef"


def problem(answer: Any, status: int) -> Problem:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = Problem.model_validate(json.loads(answer.text, parse_constant=pytest.fail))
    assert found.status == status
    assert found.title and (found.detail or status in (404, 405))
    return found


def api_routes(app: FastAPI) -> list[tuple[str, str]]:
    paths = app.openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def example_body(app: FastAPI, method: str, path: str) -> Any:
    """What the reference shows as the body of a call."""
    body = app.openapi()["paths"][path][method.lower()].get("requestBody")
    if body is None:
        return None
    media = body["content"]["application/json"]
    return next(iter(media["examples"].values()))["value"] if "examples" in media else media["example"]


def test_every_route_of_a_run_answers_an_unknown_run_with_404(app: FastAPI, client: TestClient) -> None:
    routes = [(method, path) for method, path in api_routes(app) if "{run_id}" in path]
    assert len(routes) >= 9
    for method, path in routes:
        for run_id in (NO_RUN, "x" * 5000):
            body = example_body(app, method, path)
            answer = client.request(method, path.replace("{run_id}", run_id).replace("{step}", "1"), json=body)
            assert problem(answer, 404).type in ("horizon:run-not-found", "horizon:not-found"), path


def test_path_that_leads_out_of_the_runs_is_no_route(client: TestClient) -> None:
    problem(client.get("/api/v1/runs/..%2f..%2fetc"), 404)
    problem(client.delete("/api/v1/runs/..%2f..%2fetc"), 405)


def test_every_route_answers_a_wrong_method_with_405_and_those_it_has(app: FastAPI, client: TestClient) -> None:
    for method, path in api_routes(app):
        answer = client.put(path.replace("{run_id}", NO_RUN).replace("{step}", "1"), json={})
        problem(answer, 405)
        assert method in answer.headers["allow"].split(", "), path


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "state=gone", "sort=size", "cursor=x"])
def test_list_with_a_bad_question_names_the_field(client: TestClient, query: str) -> None:
    found = problem(client.get(f"/api/v1/runs?{query}"), 422)
    assert found.errors[0].field.startswith(query.partition("=")[0])
    assert found.errors[0].message


@pytest.mark.parametrize(
    "path",
    [
        "metrics?max_points=1",
        "metrics?from=x",
        "residency?step=-1",
        "events?after=x",
        "events?types=all",
        "logs?level=loud",
    ],
)
def test_records_with_a_bad_question_are_422(client: TestClient, path: str) -> None:
    problem(client.get(f"/api/v1/runs/{NO_RUN}/{path}"), 422)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"start": true}', '{"spec": {}, "x": 1}', '{"spec": NaN'])
def test_submission_with_a_bad_body_is_422(client: TestClient, body: str) -> None:
    problem(client.post("/api/v1/runs", content=body, headers={"content-type": "application/json"}), 422)


ODD_NUMBERS = [str(10**30), str(2**63), "1e400", "%00", "%ff%fe", '"*', "("]
DEEP, HUGE = "[" * 900 + "]" * 900, "1" + "0" * 400
ODD_BODIES = [
    r'{"spec": {"name": "\ud800"}}',
    r'{"spec": {"\ud800": 1}}',
    '{"spec": 1e400}',
    f'{{"spec": {{"notes": {DEEP}}}}}',
    f'{{"set": {{"a": {DEEP}}}}}',
    f'{{"set": {{"training.optimizer_steps": {HUGE}}}}}',
    f'{{"prefetch_window": {HUGE}, "position": {HUGE}}}',
    f'{{"position": {HUGE}}}',
    r'{"before": "\u0000"}',
    r'{"name": "\u0000"}',
    r'{"notes": "\udfff"}',
    r'{"tags": ["\ud83d"]}',
    r'{"path": "\u0000"}',
    r'{"prompt": "\ud800"}',
    "\xff",
    "NaN",
]
"""What fuzzing found, and what is like it."""


def test_odd_numbers_texts_and_depths_are_a_4xx_on_every_route(app: FastAPI, client: TestClient) -> None:
    run = client.post("/api/v1/runs", json={"spec": scripted_spec(), "start": False}).json()
    failed: list[str] = []

    def ask(method: str, address: str, content: str | None = None) -> None:
        answer = client.request(method, address, content=content, headers={"content-type": "application/json"})
        if answer.status_code >= 500:
            failed.append(f"{method} {address} {content}: {answer.text}"[:300])

    for method, path in api_routes(app):
        if (method, path) == ("DELETE", "/api/v1/runs/{run_id}"):
            continue
        operation = app.openapi()["paths"][path][method.lower()]
        here = path.replace("{run_id}", run["id"]).replace("{step}", "1")
        for one in operation.get("parameters", []):
            for odd in ODD_NUMBERS:
                if one["in"] == "query":
                    ask(method, f"{here}?{one['name']}={odd}")
                elif one["in"] == "path":
                    ask(method, path.replace(f"{{{one['name']}}}", odd).replace("{run_id}", run["id"]))
        for body in ODD_BODIES if "requestBody" in operation else []:
            ask(method, here, body)
    assert failed == []


def test_submission_nested_without_end_is_a_problem(client: TestClient) -> None:
    answer = client.post("/api/v1/runs", content="[" * 100_000, headers={"content-type": "application/json"})
    problem(answer, 400)


@pytest.mark.parametrize("spec", [None, [], 5, {}, {"model": {"path": "m"}, "data": {"path": "d"}, "trainig": {}}])
def test_submission_of_a_bad_spec_names_field_and_fix(client: TestClient, spec: Any) -> None:
    found = problem(client.post("/api/v1/runs", json={"spec": spec}), 422)
    assert found.type == "horizon:spec-refused"
    assert all(error.message for error in found.errors)
    assert any(error.fix for error in found.errors)


def test_run_without_a_layout_has_no_residency_yet(client: TestClient) -> None:
    run = client.post("/api/v1/runs", json={"spec": scripted_spec(), "start": False}).json()
    assert problem(client.get(f"/api/v1/runs/{run['id']}/residency"), 404).type == "horizon:nothing-recorded"


def test_error_nobody_foresaw_is_a_500_without_its_inside(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("SECRET-CANARY")

    monkeypatch.setattr(app.state.workstation.history, "runs", fail)
    found = problem(client.get("/api/v1/runs"), 500)
    assert "SECRET-CANARY" not in found.model_dump_json()


def test_database_held_by_others_is_a_503(app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseBusy(where="x", waited_s=30.0)

    monkeypatch.setattr(app.state.workstation.history, "runs", fail)
    assert problem(client.get("/api/v1/runs"), 503).type == "horizon:database-busy"


def test_every_answer_has_a_schema(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    successes = {
        (method, path): [one for status, one in paths[path][method.lower()]["responses"].items() if status[0] == "2"]
        for method, path in api_routes(app)
    }
    assert all(successes.values())
    for route, answers in successes.items():
        assert all(media["schema"] for answer in answers for media in answer["content"].values()), route
