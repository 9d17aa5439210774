"""From stored rows to what is shown."""

from horizon_app.contracts.events import RunOutcome
from horizon_app.contracts.run_view import Checkpoint, ModelSummary, Run, RunDetail
from horizon_app.control import sparkline
from horizon_app.control.run_clock import duration_s
from horizon_app.store.runs import StoredOrder, StoredRun


def run_view(run: StoredRun) -> Run:
    """A run as the history lists it."""
    return Run(
        id=run.id, name=run.name, tags=run.tags, notes=run.notes, state=run.state, reason=run.reason,
        created_at=run.created_at, started_at=run.started_at, ended_at=run.ended_at, duration_s=duration_s(run),
        device=run.device,
        model=ModelSummary(name=run.model_name, architecture=run.architecture, parameters=run.parameters),
        step=run.step, total_steps=run.total_steps, metrics=run.metrics,
        sparkline=sparkline.values(run.sparkline), last_seq=run.last_seq,
    )  # fmt: skip


def detail_view(run: StoredRun, order: StoredOrder, checkpoints: list[Checkpoint]) -> RunDetail:
    """A run with all that is known of it."""
    return RunDetail(
        **run_view(run).model_dump(),
        spec=order.spec,
        plan=order.plan,
        layout_ready=run.layout_seq is not None,
        outcome=None if order.outcome is None else RunOutcome.model_validate(order.outcome),
        checkpoints=checkpoints,
    )
