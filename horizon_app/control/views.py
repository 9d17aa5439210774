"""From stored rows to what is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from horizon_app.contracts.events import RunOutcome
from horizon_app.contracts.run_state import LIVE, RESUMABLE, Cause, RunState
from horizon_app.contracts.run_view import Checkpoint, ModelSummary, Run, RunDetail, Segment, Series
from horizon_app.control import sparkline
from horizon_app.control.knob_values import values_in_force
from horizon_app.control.run_clock import duration_s
from horizon_app.store.database import Transaction
from horizon_app.store.metrics import StoredSeries
from horizon_app.store.queue import queue_positions
from horizon_app.store.runs import StoredOrder, StoredRun
from horizon_app.store.segments import StoredSegment


def run_view(run: StoredRun, queue_position: int | None = None) -> Run:
    """A run as the history lists it; its place in the queue is of interest where it waits."""
    return Run(
        id=run.id, name=run.name, tags=run.tags, notes=run.notes, state=run.state, reason=run.reason,
        created_at=run.created_at, started_at=run.started_at, ended_at=run.ended_at,
        duration_s=_duration_s(run), device=run.device,
        model=ModelSummary(name=run.model_name, architecture=run.architecture, parameters=run.parameters),
        step=run.step, total_steps=run.total_steps, metrics=run.metrics,
        sparkline=sparkline.values(run.sparkline), last_seq=run.last_seq, knobs_version=run.knobs_version,
        resumable=run.state in RESUMABLE, cause=None if run.cause is None else Cause(run.cause),
        exit_status=run.exit_status,
        held=run.held, queue_device=run.queue_device, queue_position=queue_position,
        archived_at=run.archived_at, cloned_from=run.cloned_from,
    )  # fmt: skip


def run_views(tx: Transaction, runs: Sequence[StoredRun]) -> list[Run]:
    """Runs as the history lists them, those that wait with their places in the queue."""
    waits = any(run.state is RunState.QUEUED for run in runs)
    positions = queue_positions(tx) if waits else {}
    return [run_view(run, positions.get(run.id)) for run in runs]


def series_views(found: Mapping[str, StoredSeries]) -> dict[str, Series]:
    """Metrics as they are shown. Arrays of numbers gave them: they are not looked at one by one again."""
    return {key: Series.model_construct(x=one.steps, y=one.values) for key, one in found.items()}


def detail_view(
    summary: Run, run: StoredRun, order: StoredOrder, checkpoints: list[Checkpoint], parts: Sequence[StoredSegment]
) -> RunDetail:
    """A run with all that is known of it."""
    return RunDetail(
        **summary.model_dump(),
        knobs=values_in_force(order.spec, order.plan, run.knobs),
        spec=order.spec,
        asked=order.asked,
        plan=order.plan,
        layout_ready=run.layout_seq is not None,
        outcome=None if order.outcome is None else RunOutcome.model_validate(order.outcome),
        checkpoints=checkpoints,
        segments=[Segment.model_validate(asdict(part)) for part in parts],
    )


def _duration_s(run: StoredRun) -> float | None:
    """Of a live run in tenths, as of when it last told something: an answer in which nothing is new stays the same."""
    took = duration_s(run, until=run.updated_at)
    return took if took is None or run.state not in LIVE else round(took, 1)
