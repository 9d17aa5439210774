"""How a run ended: for people, and as the one JSON object of `horizon run --json`."""

from pathlib import Path
from typing import Any

from horizon_app.cli.quantities import show_metric, show_seconds
from horizon_app.contracts.events import RunOutcome
from horizon_app.contracts.run_state import ENDED, RunState
from horizon_app.contracts.run_view import RunDetail, Segment
from horizon_app.contracts.sizes import show_bytes


def outcome_of(detail: RunDetail) -> RunOutcome:
    """What the worker said last, under the run's final state; where it vanished, what is known of the run."""
    if detail.outcome is not None:
        return detail.outcome.model_copy(update={"state": detail.state, "reason": detail.reason})
    return RunOutcome(
        state=detail.state, reason=detail.reason, optimizer_steps=detail.step, metrics=detail.metrics,
        seconds=detail.duration_s or 0.0,
    )  # fmt: skip


def json_body(run_id: str | None, outcome: RunOutcome) -> dict[str, Any]:
    """The object that `horizon run --json` prints."""
    return {"id": run_id, **outcome.model_dump(mode="json")}


def summary_lines(detail: RunDetail, runs_dir: Path) -> list[str]:
    """The end of a run in a few lines: speed, hit rate beside the optimum, peak memory, where the model is."""
    outcome = outcome_of(detail)
    metrics, peak = outcome.metrics, outcome.peak
    head = f"{detail.name}: {outcome.state.value} after {outcome.optimizer_steps} optimizer steps"
    lines = [f"{head} in {show_seconds(outcome.seconds)}"]
    if outcome.reason and outcome.state is not RunState.FINISHED:
        lines.append(f"  why          {outcome.reason}")
    if "train/loss" in metrics:
        lines.append(f"  loss         {show_metric(metrics['train/loss'], '.4f')}")
    if "throughput/tokens_per_second" in metrics:
        lines.append(f"  speed        {show_metric(metrics['throughput/tokens_per_second'], ',.0f')} tokens/s")
    if "prefetch/hit_rate" in metrics:
        optimum = show_metric(metrics.get("prefetch/optimal_hit_rate"), ".1%")
        rate = show_metric(metrics["prefetch/hit_rate"], ".1%")
        lines.append(f"  hit rate     {rate} (optimum without prefetch {optimum})")
    if detail.outcome is not None:
        disk = f", disk {show_bytes(peak.disk_bytes)}" if peak.disk_bytes else ""
        lines.append(
            f"  peak memory  device {show_bytes(peak.device_bytes)} in {peak.device_blocks} blocks, "
            f"host {show_bytes(peak.host_bytes)}{disk}, process {show_bytes(peak.resident_bytes)}"
        )
    run_dir = runs_dir / detail.id
    whole = [checkpoint for checkpoint in detail.checkpoints if not checkpoint.broken]
    if whole:
        lines.append(f"  model        {run_dir / max(whole, key=lambda checkpoint: checkpoint.step).path}")
    if outcome.state in {RunState.FAILED, RunState.INTERRUPTED}:
        lines.append(f"  log          {run_dir / 'worker.log'}")
    return lines


def detail_lines(detail: RunDetail, runs_dir: Path) -> list[str]:
    """One run of the history in a few lines; a live one as far as it is."""
    if detail.state in ENDED:
        lines = summary_lines(detail, runs_dir)
    else:
        lines = [f"{detail.name}: {detail.state.value}, step {detail.step} of {detail.total_steps or '?'}"]
        lines += [
            f"  {label:<12} {show_metric(detail.metrics[key], form)}"
            for label, key, form in (
                ("loss", "train/loss", ".4f"),
                ("tokens/s", "throughput/tokens_per_second", ",.0f"),
                ("hit rate", "prefetch/hit_rate", ".1%"),
            )
            if key in detail.metrics
        ]
    started = detail.started_at.astimezone().strftime("%Y-%m-%d %H:%M:%S %z") if detail.started_at else "not yet"
    return [
        *lines,
        f"  model from   {detail.spec['model']['path']}",
        f"  started      {started}",
        *(f"  segment {part.number:<4} {_segment(part)}" for part in detail.segments if len(detail.segments) > 1),
        f"  id           {detail.id}",
    ]


def _segment(part: Segment) -> str:
    """What one of several workers did."""
    first, last = part.first_step, part.last_step
    steps = "no step" if first is None or (last is None and part.state) else f"steps {first} to {last or 'now'}"
    again = "" if part.void_after is None else f", those behind {part.void_after} done again"
    return f"{steps}{again}, {part.state.value if part.state else 'live'}"
