"""How long runs run, whatever happens to the clock on the wall: measured on the clock that counts since the boot."""

import time
from datetime import UTC, datetime

from horizon_app.contracts.run_state import LIVE
from horizon_app.control.process_watch import boot_id
from horizon_app.store.runs import StoredRun


def since_boot_s() -> float:
    """Seconds since the boot, those of a suspended machine too; the same for every process, and never set back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def duration_s(run: StoredRun, until: datetime | None = None) -> float | None:
    """Seconds that the run has had a worker, over all its lives, until now or a moment ago; None before the first."""
    if run.started_at is None:
        return None
    return run.ran_s + (_life_s(run, run.started_at, until) if run.state in LIVE else 0.0)


def _life_s(run: StoredRun, started_at: datetime, until: datetime | None) -> float:
    """Seconds of this life; by the wall, and at least 0, where the machine was booted since."""
    now = _wall()
    # What a worker did while no server ran is recorded later than it happened.
    ago = 0.0 if until is None else max(0.0, (now - until).total_seconds())
    if run.started_clock is not None and run.boot_id is not None and run.boot_id == boot_id():
        return max(0.0, since_boot_s() - run.started_clock - ago)
    return max(0.0, (now - started_at).total_seconds() - ago)


def _wall() -> datetime:
    return datetime.now(UTC)
