"""A long journal is recorded in pieces: every line once, others write in between, and how fast it went is told."""

import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from horizon_app.contracts.events import Event, LogWritten, StateChanged, metrics_event
from horizon_app.contracts.run_state import RunState
from horizon_app.control import journal_follower, run_folder
from horizon_app.control.dispatcher import Dispatcher
from horizon_app.control.hub import Hub
from horizon_app.control.journal_follower import JournalFollower
from horizon_app.control.launcher import Launcher
from horizon_app.control.recorder import note
from horizon_app.control.run_folder import RunFolder
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database
from horizon_app.store.events import events_after
from horizon_app.store.runs import StoredRun, get_run
from tests.support.stores import add_run, open_store

STEPS = 40
JOURNAL: list[Event] = [
    StateChanged(state=RunState.RUNNING),
    *(metrics_event(step, {"train/loss": 4.0 / step}) for step in range(1, STEPS + 1)),
    StateChanged(state=RunState.FINISHED),
]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppSettings:
    monkeypatch.setattr(run_folder, "_READ_BYTES", 1000)
    return AppSettings(home=tmp_path / "home")


@pytest.fixture
def database(settings: AppSettings) -> Iterator[Database]:
    with open_store(settings.home) as database:
        yield database


def read(database: Database, run_id: str) -> StoredRun:
    with database.read() as tx:
        run = get_run(tx, run_id)
    assert run is not None
    return run


def waiting(database: Database, settings: AppSettings, torn: bytes = b"") -> tuple[str, RunFolder]:
    """A live run whose whole journal waits, and its folder."""
    folder = RunFolder(settings.runs_dir, run_id := add_run(database, RunState.STARTING))
    folder.path.mkdir(parents=True)
    lines = b"".join(event.model_dump_json().encode() + b"\n" for event in JOURNAL)
    (folder.path / "journal.jsonl").write_bytes(lines + torn)
    return run_id, folder


def steps(database: Database, run_id: str) -> list[int]:
    with database.read() as tx:
        return [event["step"] for event in events_after(tx, run_id, 0, limit=1000, types=["metrics"])]


@pytest.mark.parametrize("torn", [b"", b'{"type":"metrics","st'])
def test_journal_is_recorded_in_pieces_with_room_for_others_between_them(
    database: Database, settings: AppSettings, torn: bytes
) -> None:
    run_id, folder = waiting(database, settings, torn)
    follower = JournalFollower(database, folder, read(database, run_id))
    ends = [0]
    while (run := follower.record_next()) is not None:
        ends.append(run.journal_bytes)
        assert follower.is_behind == (run.journal_seq < len(JOURNAL) or bool(torn))
        note(database, run_id, [LogWritten(message="written by another")])
    assert all(0 < end - before <= 1000 for before, end in pairwise(ends))
    assert not follower.is_behind
    assert steps(database, run_id) == list(range(1, STEPS + 1))


def test_journal_that_another_process_records_too_is_recorded_once(database: Database, settings: AppSettings) -> None:
    run_id, folder = waiting(database, settings)
    one, other = (JournalFollower(database, folder, read(database, run_id)) for _ in range(2))
    while one.record_next() is not None:
        other.record_next()
    assert steps(database, run_id) == list(range(1, STEPS + 1))


def test_speed_of_a_long_catching_up_is_told_in_the_log(
    database: Database, settings: AppSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_id, folder = waiting(database, settings)
    follower = JournalFollower(database, folder, read(database, run_id))
    monkeypatch.setattr(journal_follower, "_TOLD_S", 0.0)
    with caplog.at_level(logging.INFO):
        while follower.record_next() is not None:
            pass
    told = [record.getMessage() for record in caplog.records if record.name == journal_follower.__name__]
    assert len(told) == 1 and f"{len(JOURNAL)} events recorded" in told[0]


def test_run_whose_worker_is_gone_is_ended_by_the_last_words_of_its_journal(
    database: Database, settings: AppSettings
) -> None:
    run_id, _ = waiting(database, settings)
    dispatcher = Dispatcher(database=database, hub=Hub(database), launcher=Launcher(settings), settings=settings)
    dispatcher.look_once()
    run = read(database, run_id)
    assert (run.state, run.step) == (RunState.FINISHED, STEPS)
