"""What can be said of a home folder in numbers at this moment; cheap enough to be asked every few seconds."""

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from horizon_app.contracts.run_state import RunState
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database
from horizon_app.store.figures import database_bytes, queue_lengths, run_counts
from horizon_app.store.runs import StoredRun, live_runs

MOST_RUNS = 50
"""Live runs that are told of one by one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFigures:
    """One live run."""

    run_id: str
    step: int
    total_steps: int | None
    metrics: Mapping[str, float | None]
    unrecorded_bytes: int
    """Of its journal: what the worker has written and the database does not hold yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The whole."""

    runs: Mapping[RunState, int]
    queued: Mapping[str, int]
    live: list[RunFigures]
    viewers: int
    database_bytes: int
    free_bytes: int


def take_figures(database: Database, settings: AppSettings, *, viewers: int) -> Figures:
    """All of them, from one moment of the database. Raises OSError."""
    with database.read() as tx:
        counts, queued, live, size = run_counts(tx), queue_lengths(tx), live_runs(tx), database_bytes(tx)
    return Figures(
        runs=counts, queued=queued, live=[_run(run, settings) for run in live[:MOST_RUNS]], viewers=viewers,
        database_bytes=size, free_bytes=shutil.disk_usage(settings.home).free,
    )  # fmt: skip


def _run(run: StoredRun, settings: AppSettings) -> RunFigures:
    written = run.journal_bytes
    with contextlib.suppress(OSError):  # its worker has not begun
        written = (settings.runs_dir / run.id / "journal.jsonl").stat().st_size
    return RunFigures(
        run_id=run.id, step=run.step, total_steps=run.total_steps, metrics=run.metrics,
        unrecorded_bytes=max(0, written - run.journal_bytes),
    )  # fmt: skip
