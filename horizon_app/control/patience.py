"""How long a run that was asked to stop may take before its processes are signalled."""

import time
from collections.abc import Callable
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


class StopWatch:
    """How long ago a run was asked to stop.

    The clock on the wall is asked once, for others may have watched the run before; from then on one that nobody sets.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked_at: datetime | None = None
        self._began = 0.0

    def waited_s(self, run: StoredRun) -> float:
        """Seconds since then; 0 where it was not asked."""
        if run.stop_asked_at is None:
            return 0.0
        if run.stop_asked_at != self._asked_at:
            self._asked_at = run.stop_asked_at
            self._began = self._clock() - (_wall() - run.stop_asked_at).total_seconds()
        return self._clock() - self._began


def _wall() -> datetime:
    return datetime.now(UTC)
