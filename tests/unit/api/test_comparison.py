"""Comparison and export over HTTP."""

import csv
import io
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from horizon_app.api.routes.comparison import content_disposition
from horizon_app.control.workstation import Workstation
from tests.support.stores import add_measured_run, add_run


@pytest.fixture
def station(app: FastAPI, client: TestClient) -> Workstation:
    return app.state.workstation


def test_compare_is_no_run_id_and_answers_with_series_and_differences(client: TestClient, station: Workstation) -> None:
    a = add_measured_run(station.database, {"train/loss": {1: 2.0, 2: 1.0}}, spec={"offload": {"policy": "lru"}})
    b = add_measured_run(station.database, {"train/loss": {1: 3.0}}, spec={"offload": {"policy": "clock"}})
    body = client.get(f"/api/v1/runs/compare?ids={a},{b}&keys=train/loss&max_points=100").json()
    assert body["series"]["train/loss"][a] == {"step": [1, 2], "x": [1.0, 2.0], "y": [2.0, 1.0]}
    assert body["differences"] == [{"key": "offload.policy", "values": {a: "lru", b: "clock"}}]
    assert [run["best_loss"] for run in body["runs"]] == [1.0, 3.0]


def test_compare_with_unknown_runs_is_a_404_that_names_them_all(client: TestClient, station: Workstation) -> None:
    answer = client.get(f"/api/v1/runs/compare?ids=x,{add_run(station.database)},y")
    assert (answer.status_code, answer.json()["detail"]) == (404, "there are no runs 'x', 'y'")


@pytest.mark.parametrize("query", ["", "?ids=", "?ids=a", "?ids=a,a", "?ids=a,b&x=weeks", "?ids=a,b&max_points=0"])
def test_compare_that_makes_no_sense_is_a_422_that_names_the_field(query: str, client: TestClient) -> None:
    answer = client.get(f"/api/v1/runs/compare{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] in {"ids", "x", "max_points"}


@pytest.mark.parametrize("method", ["PATCH", "DELETE", "PUT", "POST"])
def test_compare_knows_get_alone(method: str, client: TestClient) -> None:
    answer = client.request(method, "/api/v1/runs/compare")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_export_is_an_attachment_named_after_the_run(client: TestClient, station: Workstation) -> None:
    run_id = add_measured_run(station.database, {"train/loss": {1: 2.0}}, name='Läufe / "neu"\r\nX: y')
    answer = client.get(f"/api/v1/runs/{run_id}/export?format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert [*csv.reader(io.StringIO(answer.text, newline=""))] == [["step", "train/loss"], ["1", "2.0"]]
    disposition = answer.headers["content-disposition"]
    assert 'filename="L-ufe-neu-X-y.csv"' in disposition
    assert unquote(disposition.rpartition("''")[2]) == "Läufe    neu   X  y.csv"


def test_reports_are_files_in_html(client: TestClient, station: Workstation) -> None:
    runs = [add_measured_run(station.database, {"train/loss": {1: 2.0}}) for _ in range(2)]
    for path in (f"{runs[0]}/export?format=html", f"compare?ids={','.join(runs)}&format=html"):
        answer = client.get(f"/api/v1/runs/{path}")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-disposition"].startswith("attachment; ")
        assert "</html>" in answer.text


def test_export_as_json_is_the_default_and_holds_the_spec(client: TestClient, station: Workstation) -> None:
    run_id = add_measured_run(station.database, {"train/loss": {1: 2.0}}, spec={"model": {"path": "m"}})
    answer = client.get(f"/api/v1/runs/{run_id}/export")
    assert answer.json()["spec"] == {"model": {"path": "m"}}
    assert answer.json()["metrics"] == {"train/loss": {"x": [1], "y": [2.0]}}


def test_export_of_an_unknown_run_or_in_an_unknown_format_is_refused(client: TestClient, station: Workstation) -> None:
    assert client.get("/api/v1/runs/nobody/export").status_code == 404
    answer = client.get(f"/api/v1/runs/{add_run(station.database)}/export?format=xls")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "format")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd.csv", "....csv", "", "\x00\x1f.csv", "名前.json", "a" * 500 + ".csv"]
)
def test_content_disposition_of_any_name_is_a_plain_file_name(name: str) -> None:
    header = content_disposition(name)
    plain = header.split('filename="')[1].split('"')[0]
    assert header.isascii() and header.isprintable()
    assert plain.strip(".-") and "/" not in plain and len(plain) < 140
    assert "/" not in unquote(header.rpartition("''")[2])
