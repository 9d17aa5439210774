"""The server's figures in Prometheus' text format."""

from collections.abc import Callable

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Info, ProcessCollector, generate_latest

import horizon_app
from horizon_app.api.deps import Station
from horizon_app.control.figures import Figures, RunFigures, take_figures

router = APIRouter(tags=["machine"])

_EXAMPLE = '# HELP horizon_runs Runs in each state.\n# TYPE horizon_runs gauge\nhorizon_runs{state="running"} 1.0\n'
_PER_RUN: list[tuple[str, str, Callable[[RunFigures], float | None]]] = [
    ("horizon_run_step", "Optimizer steps done.", lambda run: run.step),
    ("horizon_run_steps_planned", "Optimizer steps to do in all.", lambda run: run.total_steps),
    ("horizon_run_loss", "Training loss of the last step, in nats.", lambda run: run.metrics.get("train/loss")),
    (
        "horizon_run_tokens_per_second", "Tokens trained a second in the last step.",
        lambda run: run.metrics.get("throughput/tokens_per_second"),
    ),
    (
        "horizon_run_prefetch_hit_ratio", "Share of block accesses that found the block ready on the device.",
        lambda run: run.metrics.get("prefetch/hit_rate"),
    ),
    (
        "horizon_run_journal_unrecorded_bytes", "Bytes of the run's journal that the database does not hold yet.",
        lambda run: run.unrecorded_bytes,
    ),
]  # fmt: skip
_TIERS = ("device", "host", "disk")


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE}}}},
)
def prometheus_metrics(station: Station) -> PlainTextResponse:
    """Runs, queues, live runs, viewers and this process, in Prometheus' text format."""
    viewers = station.hub.num_viewers + station.overview.num_viewers
    figures = take_figures(station.database, station.settings, viewers=viewers)
    return PlainTextResponse(exposition(figures), media_type=CONTENT_TYPE_LATEST)


def exposition(figures: Figures) -> bytes:
    """The figures as Prometheus reads them, in a registry of their own."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    Info("horizon", "The server.", registry=registry).info({"version": horizon_app.__version__})

    def gauge(name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=registry)

    states = gauge("horizon_runs", "Runs in each state.", "state")
    for state, count in figures.runs.items():
        states.labels(state.value).set(count)
    queue = gauge("horizon_queue_length", "Runs that wait for a device.", "device")
    for device, count in figures.queued.items():
        queue.labels(device).set(count)
    gauge("horizon_stream_viewers", "Open streams.").set(figures.viewers)
    gauge("horizon_database_size_bytes", "Size of the history's database.").set(figures.database_bytes)
    gauge("horizon_home_free_bytes", "Free on the disk of the home folder.").set(figures.free_bytes)
    for name, about, value_of in _PER_RUN:
        per_run = gauge(name, about, "run")
        for run in figures.live:
            value = value_of(run)
            if value is not None:
                per_run.labels(run.run_id).set(value)
    tiers = gauge("horizon_run_tier_bytes", "Bytes of a live run in each tier.", "run", "tier")
    for run in figures.live:
        for tier in _TIERS:
            used = run.metrics.get(f"tier/{tier}_bytes")
            if used is not None:
                tiers.labels(run.run_id, tier).set(used)
    return generate_latest(registry)
