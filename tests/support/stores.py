"""Databases for tests, and runs in them."""

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horizon_app.contracts.events import FactNoted, metrics_event
from horizon_app.contracts.ids import RunId, new_run_id
from horizon_app.contracts.run_state import RunState
from horizon_app.control.lifecycle import change_state, locked_run
from horizon_app.control.recorder import JournalBatch, record_batch
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database, open_database
from horizon_app.store.migrate import migrate
from horizon_app.store.runs import NewRun, insert_run

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_WAYS: dict[RunState, tuple[RunState, ...]] = {
    RunState.QUEUED: (),
    RunState.STARTING: (RunState.STARTING,),
    RunState.RUNNING: (RunState.STARTING, RunState.RUNNING),
    RunState.PAUSED: (RunState.STARTING, RunState.RUNNING, RunState.PAUSED),
    RunState.STOPPING: (RunState.STARTING, RunState.STOPPING),
    RunState.FINISHED: (RunState.STARTING, RunState.RUNNING, RunState.FINISHED),
    RunState.STOPPED: (RunState.STOPPED,),
    RunState.FAILED: (RunState.STARTING, RunState.FAILED),
    RunState.INTERRUPTED: (RunState.STARTING, RunState.INTERRUPTED),
}
_numbers = itertools.count()


@contextmanager
def open_store(home: Path) -> Generator[Database]:
    """A migrated database in a home folder."""
    home.mkdir(parents=True, exist_ok=True)
    database = open_database(settings_of(home))
    migrate(database)
    try:
        yield database
    finally:
        database.close()


def settings_of(home: Path) -> AppSettings:
    """The settings of a home folder; its database is the one that the test is run on."""
    return AppSettings(home=home, database_url=None if _databases is None else _databases.of(home))


class PostgresDatabases:
    """Stands in for SQLite files: each home folder has a database of a server."""

    def __init__(self, server: "PostgresServer") -> None:
        self._server = server
        self._urls: dict[Path, str] = {}

    def of(self, home: Path) -> str:
        """URL of a home folder's database."""
        if home not in self._urls:
            self._urls[home] = self._server.new_database()
        return self._urls[home]

    def __enter__(self) -> None:
        global _databases
        _databases = self

    def __exit__(self, *_: object) -> None:
        global _databases
        _databases = None
        for url in self._urls.values():
            self._server.give_back(url)


_databases: PostgresDatabases | None = None


def new_run(number: int | None = None, **changes: Any) -> NewRun:
    """A run that asks for nothing; each is a second younger than the one before."""
    created = _EPOCH + timedelta(seconds=next(_numbers) if number is None else number)
    values: dict[str, Any] = {
        "id": new_run_id(created), "name": "a run", "tags": [], "notes": "", "held": False, "created_at": created,
        "queue_device": "cpu", "share_device": False, "cloned_from": None, "asked": {},
        "spec": {}, "model_dir": "/m", "data_paths": ["/d"], "eval_paths": [], "folders": None, "base_dir": "/",
        "disk_dir": None, "model_name": "m",
        "architecture": None, "parameters": None, "total_steps": None, "idempotency_key": None,
    }  # fmt: skip
    return NewRun(**{**values, **changes})


def add_run(database: Database, state: RunState = RunState.QUEUED, **changes: Any) -> RunId:
    """A run in a state, reached along the table."""
    run = new_run(**changes)
    with database.write() as tx:
        insert_run(tx, run)
        for step in _WAYS[state]:
            change_state(tx, run.id, step, who="test")
    return run.id


def add_measured_run(database: Database, series: dict[str, dict[int, float]], **changes: Any) -> RunId:
    """A finished run with these metrics, each value under its key and optimizer step, recorded as a worker's are."""
    run_id = add_run(database, RunState.RUNNING, **changes)
    steps = sorted({step for points in series.values() for step in points})
    events = [
        metrics_event(step, {k: points[step] for k, points in series.items() if step in points}) for step in steps
    ]
    lines = [event.model_dump_json().encode() for event in events]
    record_batch(database, run_id, JournalBatch(first_line=1, end_bytes=sum(map(len, lines)), lines=lines))
    with database.write() as tx:
        change_state(tx, run_id, RunState.FINISHED, who="test")
    return run_id


def resume_behind(database: Database, run_id: RunId, *, step: int) -> None:
    """Let another worker go on with an ended run, from a step that lies before its last one."""
    with database.write() as tx:
        for state in (RunState.QUEUED, RunState.STARTING):
            change_state(tx, run_id, state, who="test")
        journal_seq = locked_run(tx, run_id).journal_seq
    line = FactNoted(kind="resumed", message="", data={"step": step}).model_dump_json().encode()
    record_batch(database, run_id, JournalBatch(first_line=journal_seq + 1, end_bytes=1 << 30, lines=[line]))
