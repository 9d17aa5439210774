"""Segments: what each worker of a run did, and what a later one did again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from horizon_app.contracts.events import metrics_event
from horizon_app.contracts.run_state import RunState
from horizon_app.control.lifecycle import change_state
from horizon_app.store.database import Database, Transaction
from horizon_app.store.metrics import record_metrics, series
from horizon_app.store.runs import delete_run, update_run
from horizon_app.store.segments import (
    StoredSegment,
    close_segment,
    go_back,
    open_segment,
    segments_of,
    superseded_series,
)
from tests.support.stores import add_run, open_store

pytestmark = pytest.mark.usefixtures("any_database")
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def live(database: Database, run_id: str, number: int, *, goes_on_at: int | None, ends_at: int) -> None:
    """A worker's life: its steps are measured as 100 times its number, plus the step."""
    began = _BEGAN + timedelta(hours=number)
    with database.write() as tx:
        open_segment(tx, run_id, number, began)
        if goes_on_at is not None:
            go_back(tx, run_id, step=goes_on_at)
        measure(tx, run_id, number, range((goes_on_at or 0) + 1, ends_at + 1))
        ended = began + timedelta(minutes=1)
        close_segment(tx, run_id, RunState.INTERRUPTED, f"life {number}", at=ended, step=ends_at)


def measure(tx: Transaction, run_id: str, number: int, steps: range) -> None:
    record_metrics(tx, run_id, [metrics_event(step, {"loss": 100.0 * number + step}) for step in steps])


def measured(database: Database, run_id: str) -> list[float | None]:
    with database.read() as tx:
        return [y for _, y in series(tx, run_id, ["loss"], first=None, last=None, max_points=1000)["loss"].points]


def again(database: Database, run_id: str) -> dict[int, list[tuple[int, float | None]]]:
    with database.read() as tx:
        found = superseded_series(tx, run_id, None, first=None, last=None, max_points=1000)
    return {number: one["loss"].points for number, one in found.items()}


def parts(database: Database, run_id: str) -> list[StoredSegment]:
    with database.read() as tx:
        return segments_of(tx, run_id)


def test_tail_that_is_done_again_stays_marked_with_the_segment_that_measured_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        live(database, run_id, 1, goes_on_at=None, ends_at=6)
        live(database, run_id, 2, goes_on_at=4, ends_at=7)  # 5 and 6 again
        live(database, run_id, 3, goes_on_at=3, ends_at=5)  # the checkpoint of 4 was damaged: 4 again, and 5 to 7
        assert measured(database, run_id) == [101, 102, 103, 304, 305]
        assert again(database, run_id) == {
            1: [(4, 104.0), (5, 105.0), (6, 106.0)],
            2: [(5, 205.0), (6, 206.0), (7, 207.0)],
        }
        assert [(part.first_step, part.last_step, part.void_after) for part in parts(database, run_id)] == [
            (1, 6, 3), (5, 7, 3), (4, 5, None),
        ]  # fmt: skip
        assert parts(database, run_id)[1].state is RunState.INTERRUPTED
        assert parts(database, run_id)[1].reason == "life 2"


def test_run_that_goes_on_where_it_ended_supersedes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        live(database, run_id, 1, goes_on_at=None, ends_at=3)
        live(database, run_id, 2, goes_on_at=3, ends_at=4)
        assert measured(database, run_id) == [101, 102, 103, 204]
        assert again(database, run_id) == {}
        assert [part.void_after for part in parts(database, run_id)] == [None, None]


def test_segment_that_died_before_its_first_step_names_no_last_one(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        live(database, run_id, 1, goes_on_at=None, ends_at=3)
        with database.write() as tx:
            open_segment(tx, run_id, 2, _BEGAN)
            close_segment(tx, run_id, RunState.FAILED, "", at=_BEGAN, step=3)
        assert [(part.first_step, part.last_step) for part in parts(database, run_id)] == [(1, 3), (None, None)]
        live(database, run_id, 3, goes_on_at=0, ends_at=1)  # its checkpoints were lost: from the beginning
        assert measured(database, run_id) == [301]
        assert again(database, run_id) == {1: [(1, 101.0), (2, 102.0), (3, 103.0)]}


def test_superseded_metrics_are_cut_thinned_and_flagged_like_others_and_go_with_their_run(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        with database.write() as tx:
            open_segment(tx, run_id, 1, _BEGAN)
            record_metrics(tx, run_id, [metrics_event(step, {"loss": 1.0, "other": 2.0}) for step in range(1, 101)])
            record_metrics(tx, run_id, [metrics_event(50, {"loss": float("nan")}), metrics_event(60, {"loss": 9.0})])
            open_segment(tx, run_id, 2, _BEGAN)
            go_back(tx, run_id, step=10)
        with database.read() as tx:
            found = superseded_series(tx, run_id, ["loss"], first=20, last=80, max_points=9)[1]
        assert found.keys() == {"loss"} and found["loss"].nonfinite == [(50, "nan")]
        steps = [step for step, _ in found["loss"].points]
        assert len(steps) <= 9 and min(steps) >= 20 and steps[-1] == 80 and (60, 9.0) in found["loss"].points
        with database.write() as tx:
            delete_run(tx, run_id)
        assert again(database, run_id) == {}


def test_every_life_along_the_table_of_states_is_a_segment(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.INTERRUPTED)
        with database.write() as tx:
            change_state(tx, run_id, RunState.QUEUED, who="test")
            change_state(tx, run_id, RunState.STARTING, who="test")
            update_run(tx, run_id, step=5)
        assert [(part.number, part.state) for part in parts(database, run_id)] == [(1, RunState.INTERRUPTED), (2, None)]
        with database.write() as tx:
            change_state(tx, run_id, RunState.FAILED, "no room", who="test")
            change_state(tx, run_id, RunState.QUEUED, who="test")
            change_state(tx, run_id, RunState.STOPPED, "stopped before it started", who="test")
        assert [(part.number, part.state, part.reason) for part in parts(database, run_id)][1:] == [
            (2, RunState.FAILED, "no room")
        ]
