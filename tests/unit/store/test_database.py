"""Transactions: one writer in all processes, strict JSON, times in UTC."""

import json
import multiprocessing
import sqlite3
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from horizon_app.contracts.events import LogWritten
from horizon_app.control.recorder import note
from horizon_app.settings import AppSettings
from horizon_app.store import database as database_module
from horizon_app.store.database import dump_json, open_database
from horizon_app.store.errors import DatabaseBusy
from horizon_app.store.events import events_after
from horizon_app.store.runs import get_run, update_run
from tests.support.stores import add_run, new_run, open_store


def _note_many(home: Path, run_id: str, count: int) -> None:
    database = open_database(AppSettings(home=home))
    for number in range(count):
        note(database, run_id, [LogWritten(message=str(number))])
    database.close()


def test_two_processes_that_write_to_one_run_leave_no_gap_in_its_stream(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        spawn = multiprocessing.get_context("spawn")
        other = spawn.Process(target=_note_many, args=(tmp_path, run_id, 40))
        other.start()
        _note_many(tmp_path, run_id, 40)
        other.join(60)
        assert other.exitcode == 0
        with database.read() as tx:
            assert [event["seq"] for event in events_after(tx, run_id, 0, limit=200)] == list(range(1, 81))


def test_threads_that_write_take_turns(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        threads = [threading.Thread(target=lambda: note(database, run_id, [LogWritten(message="")])) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with database.read() as tx:
            run = get_run(tx, run_id)
        assert run is not None and run.last_seq == 16


def test_write_that_raises_leaves_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        with pytest.raises(RuntimeError), database.write() as tx:
            update_run(tx, run_id, name="changed")
            raise RuntimeError
        with database.read() as tx:
            run = get_run(tx, run_id)
        assert run is not None and run.name == "a run"


def test_write_while_another_process_holds_the_database_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_MS", 50)
    with open_store(tmp_path) as database:
        other = sqlite3.connect(tmp_path / "horizon.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy, match=r"horizon\.db"), database.write():
            pass
        with database.read() as tx:
            assert get_run(tx, "nothing") is None
        other.execute("ROLLBACK")
        other.close()


def test_foreign_keys_are_kept(tmp_path: Path) -> None:
    from sqlalchemy.exc import IntegrityError

    from horizon_app.store.events import NewEvent, append_events

    with open_store(tmp_path) as database, pytest.raises(IntegrityError), database.write() as tx:
        append_events(tx, "no-such-run", [NewEvent(seq=1, journal_seq=None, event=LogWritten(message=""))])


def test_times_come_back_in_utc_whatever_zone_they_had(tmp_path: Path) -> None:
    moment = datetime(2026, 3, 29, 3, 30, tzinfo=timezone(timedelta(hours=2)))
    with open_store(tmp_path) as database:
        run_id = add_run(database, created_at=moment)
        with database.read() as tx:
            run = get_run(tx, run_id)
    assert run is not None
    assert run.created_at == moment and run.created_at.tzinfo is UTC


def test_times_without_a_zone_are_refused(tmp_path: Path) -> None:
    from sqlalchemy.exc import StatementError

    with open_store(tmp_path) as database, pytest.raises(StatementError, match="no time zone"):
        add_run(database, created_at=new_run().created_at.replace(tzinfo=None))


def test_json_is_strict_and_keeps_every_letter() -> None:
    text = dump_json({"a": [float("nan"), float("inf"), 1.5], "名": "前"})
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, None, 1.5], "名": "前"}
    assert "名" in text
