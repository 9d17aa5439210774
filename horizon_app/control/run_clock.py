"""How long runs run, whatever happens to the clock on the wall: measured on the clock that counts since the boot."""

import time
from datetime import UTC, datetime

from horizon_app.contracts.run_state import LIVE
from horizon_app.control.process_watch import boot_id
from horizon_app.store.runs import StoredRun


def since_boot_s() -> float:
    """Seconds since the boot, those of a suspended machine too; the same for every process, and never set back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def life_s(run: StoredRun) -> float:
    """Seconds since the run was last started; by the wall, at least 0, where the machine was booted since."""
    if run.started_at is None:
        return 0.0
    if run.started_clock is not None and run.boot_id is not None and run.boot_id == boot_id():
        return max(0.0, since_boot_s() - run.started_clock)
    return max(0.0, (datetime.now(UTC) - run.started_at).total_seconds())


def duration_s(run: StoredRun) -> float | None:
    """Seconds that the run has had a worker, over all its lives; None before the first."""
    if run.started_at is None:
        return None
    return run.ran_s + (life_s(run) if run.state in LIVE else 0.0)
