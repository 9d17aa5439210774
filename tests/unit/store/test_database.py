"""Transactions: one writer in all processes, strict JSON, times in UTC."""

import json
import multiprocessing
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from horizon_app.contracts.events import LogWritten
from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.control.recorder import note
from horizon_app.settings import AppSettings
from horizon_app.store.database import dump_json, open_database
from horizon_app.store.errors import DatabaseBusy, DatabaseDamaged, DatabaseUnavailable, StoreError
from horizon_app.store.events import events_after
from horizon_app.store.migrate import migrate
from horizon_app.store.run_list import RunFilter, list_runs
from horizon_app.store.runs import get_order, get_run, update_run
from tests.support.stores import add_run, new_run, open_store, settings_of


def _note_many(settings: AppSettings, run_id: str, count: int) -> None:
    database = open_database(settings)
    for number in range(count):
        note(database, run_id, [LogWritten(message=str(number))])
    database.close()


@pytest.mark.usefixtures("any_database")
def test_two_processes_that_write_to_one_run_leave_no_gap_in_its_stream(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        spawn = multiprocessing.get_context("spawn")
        other = spawn.Process(target=_note_many, args=(settings_of(tmp_path), run_id, 40))
        other.start()
        _note_many(settings_of(tmp_path), run_id, 40)
        other.join(60)
        assert other.exitcode == 0
        with database.read() as tx:
            assert [event["seq"] for event in events_after(tx, run_id, 0, limit=200)] == list(range(1, 81))


@pytest.mark.usefixtures("any_database")
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


@pytest.mark.usefixtures("any_database")
def test_write_that_raises_leaves_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        with pytest.raises(RuntimeError), database.write() as tx:
            update_run(tx, run_id, name="changed")
            raise RuntimeError
        with database.read() as tx:
            run = get_run(tx, run_id)
        assert run is not None and run.name == "a run"


def test_write_while_another_process_holds_the_database_says_so_and_readers_go_on(
    tmp_path: Path, any_database: str
) -> None:
    with open_store(tmp_path):
        pass
    settings = settings_of(tmp_path).model_copy(update={"database_wait_s": 0.05})
    holder, database = open_database(settings), open_database(settings)
    with holder.write():
        with pytest.raises(DatabaseBusy, match=r"for more than 0\.05 s"), database.write():
            pass
        with database.read() as tx:
            assert get_run(tx, "nothing") is None
    with database.write():
        pass
    holder.close()
    database.close()


def test_write_while_a_thread_of_this_process_holds_the_database_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    with open_store(tmp_path):
        pass
    database = open_database(settings_of(tmp_path).model_copy(update={"database_wait_s": 0.05}))
    with database.write(), pytest.raises(DatabaseBusy), database.write():
        pass
    database.close()


def test_read_sees_one_moment(tmp_path: Path, any_database: str) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        with database.read() as tx:
            assert get_run(tx, run_id) is not None
            other = add_run(database)
            assert get_run(tx, other) is None


def test_letters_that_the_database_has_no_room_for_become_a_sign(tmp_path: Path, any_database: str) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, spec={"model": {"path": "a\0b \\u0000"}})
        note(database, run_id, [LogWritten(message="nul \0 here")])
        with database.read() as tx:
            (event,) = events_after(tx, run_id, 0, limit=9)
            for text in ("model.path:a", "training.seed = null"):
                assert list_runs(tx, RunFilter(matching=parse_filter(text)), limit=9).total == 1
            order = get_order(tx, run_id)
    assert order is not None
    assert order.spec["model"]["path"] == ("a\0b \\u0000" if any_database == "sqlite" else "a\ufffdb \\u0000")
    assert event["message"] == ("nul \0 here" if any_database == "sqlite" else "nul \ufffd here")


@pytest.mark.parametrize(
    ("url", "said"),
    [("nonsense", "parse"), ("mysql://x/y", "MySQLdb"), ("sqlite:////nowhere/at/all.db", "unable to open")],
)
def test_database_that_can_not_be_opened_is_told_with_the_reason(url: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        migrate(open_database(AppSettings(database_url=url)))


def test_database_server_that_does_not_answer_is_told_without_the_password() -> None:
    database = open_database(AppSettings(database_url="postgresql://horizon:secret@127.0.0.1:1/horizon"))
    with pytest.raises(DatabaseUnavailable, match="onnection refused") as told, database.read():
        pass
    assert "secret" not in str(told.value)


def test_file_that_is_no_database_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "horizon.db").write_text("not a database, but a text that is long enough to be looked at\n" * 20)
    with pytest.raises(DatabaseDamaged, match="put a backup in its place"), open_store(tmp_path):
        pass


@pytest.mark.usefixtures("any_database")
def test_foreign_keys_are_kept(tmp_path: Path) -> None:
    from sqlalchemy.exc import IntegrityError

    from horizon_app.store.events import NewEvent, append_events

    with open_store(tmp_path) as database, pytest.raises(IntegrityError), database.write() as tx:
        append_events(tx, "no-such-run", [NewEvent(seq=1, journal_seq=None, event=LogWritten(message=""))])


@pytest.mark.usefixtures("any_database")
def test_times_come_back_in_utc_whatever_zone_they_had(tmp_path: Path) -> None:
    moment = datetime(2026, 3, 29, 3, 30, tzinfo=timezone(timedelta(hours=2)))
    with open_store(tmp_path) as database:
        run_id = add_run(database, created_at=moment)
        with database.read() as tx:
            run = get_run(tx, run_id)
    assert run is not None
    assert run.created_at == moment and run.created_at.tzinfo is UTC


@pytest.mark.usefixtures("any_database")
def test_times_without_a_zone_are_refused(tmp_path: Path) -> None:
    from sqlalchemy.exc import StatementError

    with open_store(tmp_path) as database, pytest.raises(StatementError, match="no time zone"):
        add_run(database, created_at=new_run().created_at.replace(tzinfo=None))


def test_json_is_strict_and_keeps_every_letter() -> None:
    text = dump_json({"a": [float("nan"), float("inf"), 1.5], "名": "前"})
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, None, 1.5], "名": "前"}
    assert "名" in text
