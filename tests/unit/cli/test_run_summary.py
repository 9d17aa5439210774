from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from horizon_app.cli.run_summary import detail_lines, json_body, outcome_of, summary_lines
from horizon_app.contracts.events import PeakUse, RunOutcome
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import Checkpoint, ModelSummary, RunDetail

METRICS: dict[str, float | None] = {
    "train/loss": 1.25,
    "throughput/tokens_per_second": 12345.6,
    "prefetch/hit_rate": 0.987,
    "prefetch/optimal_hit_rate": 0.61,
}
PEAK = PeakUse(device_blocks=12, device_bytes=12 << 22, host_bytes=3 << 30, resident_bytes=4 << 30)


def detail(**changes: Any) -> RunDetail:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    outcome = RunOutcome(state=RunState.FINISHED, optimizer_steps=30, metrics=METRICS, peak=PEAK, seconds=75.0)
    whole: dict[str, Any] = {
        "id": "20260131-120000-abcdef", "name": "my-run", "tags": [], "notes": "", "state": RunState.FINISHED,
        "reason": "", "created_at": moment, "started_at": moment, "ended_at": moment + timedelta(seconds=90),
        "duration_s": 90.0, "resumable": False, "cause": None, "exit_status": None, "knobs_version": 0, "knobs": {},
        "device": "cpu", "model": ModelSummary(name="m"), "step": 30, "total_steps": 30, "metrics": METRICS,
        "sparkline": [], "last_seq": 40, "spec": {"model": {"path": "models/m"}}, "plan": None, "layout_ready": True,
        "outcome": outcome, "checkpoints": [Checkpoint(step=s, path=f"checkpoints/{s}", bytes=1) for s in (30, 4)],
    }  # fmt: skip
    return RunDetail.model_validate({**whole, **changes})


def test_summary_of_a_finished_run_tells_speed_hit_rate_memory_and_model() -> None:
    assert summary_lines(detail(), Path("runs")) == [
        "my-run: finished after 30 optimizer steps in 1:15",
        "  loss         1.2500",
        "  speed        12,346 tokens/s",
        "  hit rate     98.7% (optimum without prefetch 61.0%)",
        "  peak memory  device 48 MiB in 12 blocks, host 3 GiB, process 4 GiB",
        "  model        runs/20260131-120000-abcdef/checkpoints/30",
    ]


def test_summary_of_a_failed_run_tells_why_and_where_the_log_is() -> None:
    lines = summary_lines(detail(state=RunState.FAILED, reason="the disk is full"), Path("runs"))
    assert lines[1] == "  why          the disk is full"
    assert lines[-1] == "  log          runs/20260131-120000-abcdef/worker.log"


def test_outcome_of_a_vanished_worker_is_what_is_known_of_the_run() -> None:
    found = outcome_of(detail(outcome=None, state=RunState.INTERRUPTED, reason="killed", step=7))
    assert (found.state, found.reason, found.optimizer_steps, found.seconds) == (
        RunState.INTERRUPTED, "killed", 7, 90.0,
    )  # fmt: skip
    assert found.metrics == METRICS


def test_json_body_has_exactly_the_contracts_keys() -> None:
    body = json_body("id", outcome_of(detail()))
    assert list(body) == ["id", "state", "reason", "optimizer_steps", "metrics", "peak", "seconds"]
    assert list(body["peak"]) == ["device_blocks", "device_bytes", "host_bytes", "disk_bytes", "resident_bytes"]
    assert body["state"] == "finished"


def test_detail_of_a_live_run_tells_how_far_it_is() -> None:
    lines = detail_lines(detail(state=RunState.RUNNING, step=3, outcome=None), Path("runs"))
    assert lines[0] == "my-run: running, step 3 of 30"
    assert "  hit rate     98.7%" in lines
    assert not any("checkpoints" in line for line in lines)


def test_detail_of_a_resumed_run_tells_what_each_worker_did() -> None:
    began = datetime(2026, 1, 31, 12, tzinfo=UTC)
    part: dict[str, Any] = {"started_at": began, "ended_at": began, "void_after": None, "reason": ""}
    parts = [
        {**part, "number": 1, "first_step": 1, "last_step": 8, "void_after": 6, "state": RunState.INTERRUPTED},
        {**part, "number": 2, "first_step": None, "last_step": None, "state": RunState.FAILED},
        {**part, "number": 3, "first_step": 7, "last_step": None, "ended_at": None, "state": None},
    ]
    lines = [line.split(None, 2)[2] for line in detail_lines(detail(segments=parts), Path("runs")) if "segment" in line]
    assert lines == [
        "steps 1 to 8, those behind 6 done again, interrupted", "no step, failed", "steps 7 to now, live",
    ]  # fmt: skip
    once = detail_lines(detail(segments=parts[:1]), Path("runs"))
    assert [line for line in once if "segment" in line] == []
