"""How long a run that was asked to stop may take before its processes are signalled."""

from datetime import UTC, datetime

from horizon_app.store.runs import StoredRun

_STEPS = 2
"""The step in progress, and one that took longer than the last."""
_SAVED_BYTES = 2 * 12
"""Of each parameter: the master and both moments, in a checkpoint being written and in the one asked for."""
_SLOW_DISK_BYTES_PER_S = 100e6


def patience_s(run: StoredRun, grace_s: float) -> float:
    """The grace, and what a step in progress and the writing of checkpoints need."""
    step_s = run.metrics.get("time/step") or 0.0
    saving_s = (run.parameters or 0) * _SAVED_BYTES / _SLOW_DISK_BYTES_PER_S
    return grace_s + _STEPS * step_s + saving_s


def stopping_s(run: StoredRun) -> float:
    """Seconds since the run was asked to stop."""
    asked = run.stop_asked_at
    return 0.0 if asked is None else datetime.now(UTC).timestamp() - asked.timestamp()
