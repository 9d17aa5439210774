"""Durations do not depend on the clock on the wall."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from horizon_app.contracts.events import StateChanged
from horizon_app.contracts.run_state import RunState
from horizon_app.control import run_clock
from horizon_app.control.lifecycle import enter_state
from horizon_app.control.views import run_view
from horizon_app.store.database import Database
from horizon_app.store.runs import StoredRun, get_run, update_run
from tests.support.stores import add_run, open_store


class Clocks:
    """A wall clock and one that counts since the boot, both set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.boot_s = 1000.0
        monkeypatch.setattr(run_clock.time, "clock_gettime", lambda _: self.boot_s)
        monkeypatch.setattr(run_clock, "_wall", lambda: self.wall)

    def pass_by(self, seconds: float, *, wall: float | None = None) -> None:
        self.boot_s += seconds
        self.wall += timedelta(seconds=seconds if wall is None else wall)


def read(database: Database, run_id: str) -> StoredRun:
    with database.read() as tx:
        run = get_run(tx, run_id)
    assert run is not None
    return run


def enter(database: Database, run_id: str, state: RunState, at: datetime) -> StoredRun:
    with database.write() as tx:
        run = get_run(tx, run_id)
        assert run is not None
        enter_state(tx, run, StateChanged(time=at, state=state))
    return read(database, run_id)


def test_wall_clock_set_back_an_hour_leaves_the_duration_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks(monkeypatch)
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        enter(database, run_id, RunState.STARTING, clocks.wall)
        clocks.pass_by(20.0, wall=-3600.0)
        assert run_view(read(database, run_id)).duration_s == 20.0
        clocks.pass_by(5.0)
        ended = enter(database, run_id, RunState.FINISHED, clocks.wall)
        assert run_view(ended).duration_s == 25.0


def test_duration_is_that_of_all_lives_without_the_time_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks(monkeypatch)
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        for _ in range(2):
            enter(database, run_id, RunState.STARTING, clocks.wall)
            clocks.pass_by(30.0)
            enter(database, run_id, RunState.INTERRUPTED, clocks.wall)
            clocks.pass_by(500.0)
            enter(database, run_id, RunState.QUEUED, clocks.wall)
        assert run_view(read(database, run_id)).duration_s == 60.0


def test_duration_of_a_run_that_ended_while_nobody_looked_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks(monkeypatch)
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        enter(database, run_id, RunState.STARTING, clocks.wall)
        clocks.pass_by(40.0)
        ended_at = clocks.wall
        clocks.pass_by(3600.0)
        assert run_view(enter(database, run_id, RunState.FINISHED, ended_at)).duration_s == 40.0


def test_duration_after_another_boot_is_never_below_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        enter(database, run_id, RunState.STARTING, clocks.wall + timedelta(hours=1))
        with database.write() as tx:
            update_run(tx, run_id, boot_id="another boot")
        clocks.boot_s = 3.0
        assert run_view(read(database, run_id)).duration_s == 0.0


def test_duration_of_a_run_that_never_started_is_unknown(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        assert run_view(read(database, add_run(database))).duration_s is None
