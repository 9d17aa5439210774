"""The figures for Prometheus: its own parser reads them, and they are right."""

from typing import Any

from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from horizon_app.contracts.run_state import RunState
from horizon_app.control.workstation import Workstation
from horizon_app.store.runs import set_state, update_run
from tests.support.server import scripted_spec


def scrape(client: TestClient) -> dict[str, dict[str, float]]:
    """Name -> label values, with commas between -> value."""
    answer = client.get("/api/v1/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, {})[",".join(sample.labels.values())] = sample.value
    return found


def make_live(station: Workstation, run_id: str, metrics: dict[str, Any]) -> None:
    with station.database.write() as tx:
        set_state(tx, run_id, [RunState.QUEUED], RunState.RUNNING, "")
        update_run(tx, run_id, step=7, total_steps=20, metrics=metrics, journal_bytes=100)
    folder = station.settings.runs_dir / run_id
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_bytes(b"x" * 160)


def test_figures_tell_of_runs_queues_and_each_live_run(app: FastAPI, client: TestClient) -> None:
    body = {"spec": scripted_spec(), "start": False}
    run_id, _ = (client.post("/api/v1/runs", json=body).json()["id"] for _ in range(2))
    station: Workstation = app.state.workstation
    station.dispatcher._attach = lambda runs: None  # type: ignore[method-assign]  # nobody looks for its worker
    metrics = {
        "train/loss": 1.5, "throughput/tokens_per_second": 900.0, "prefetch/hit_rate": 0.75, "tier/host_bytes": 4096.0,
        "tier/device_bytes": None,
    }  # fmt: skip
    make_live(station, run_id, metrics)
    found = scrape(client)
    assert found["horizon_runs"]["running"] == 1 and found["horizon_runs"]["queued"] == 1
    assert found["horizon_runs"].keys() == {state.value for state in RunState}
    assert found["horizon_run_step"] == {run_id: 7} and found["horizon_run_steps_planned"] == {run_id: 20}
    assert found["horizon_run_loss"] == {run_id: 1.5}
    assert found["horizon_run_tokens_per_second"] == {run_id: 900}
    assert found["horizon_run_prefetch_hit_ratio"] == {run_id: 0.75}
    assert found["horizon_run_tier_bytes"] == {f"{run_id},host": 4096}
    assert found["horizon_run_journal_unrecorded_bytes"] == {run_id: 60}
    assert found["horizon_stream_viewers"] == {"": 0}
    assert found["horizon_database_size_bytes"][""] > 10_000
    assert found["process_resident_memory_bytes"][""] > 1 << 20
