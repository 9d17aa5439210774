"""Compare and set along the table, with an event for each change."""

from pathlib import Path

import pytest

from horizon_app.contracts.run_state import ENDED, RunState, is_legal
from horizon_app.control.errors import IllegalTransition, RunNotFound
from horizon_app.control.lifecycle import change_state
from horizon_app.store.database import Database
from horizon_app.store.events import events_after
from horizon_app.store.runs import StoredRun, get_run, set_state
from tests.support.stores import add_run, open_store


def read(database: Database, run_id: str) -> StoredRun:
    with database.read() as tx:
        run = get_run(tx, run_id)
    assert run is not None
    return run


def test_every_pair_of_states_is_followed_only_along_the_table(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        for old in RunState:
            for new in RunState:
                run_id = add_run(database, old)
                before = read(database, run_id)
                if is_legal(old, new):
                    with database.write() as tx:
                        change_state(tx, run_id, new, "because", who="browser")
                    after = read(database, run_id)
                    assert (after.state, after.reason, after.last_seq) == (new, "because", before.last_seq + 1)
                    continue
                refused = pytest.raises(IllegalTransition, match=f"{old.value} and can't become {new.value}")
                with refused, database.write() as tx:
                    change_state(tx, run_id, new, who="browser")
                assert read(database, run_id) == before


def test_change_appends_one_event_in_the_same_transaction(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.RUNNING)
        with database.read() as tx:
            found = events_after(tx, run_id, 0, limit=10)
    assert [(event["seq"], event["state"], event["who"]) for event in found] == [
        (1, "starting", "test"), (2, "running", "test"),
    ]  # fmt: skip


def test_times_of_start_and_end_are_those_of_their_changes(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run = read(database, add_run(database, RunState.RUNNING))
        assert run.started_at is not None and run.ended_at is None
        for state in ENDED:
            run = read(database, add_run(database, state))
            assert run.ended_at is not None
            assert run.started_at is None or run.ended_at >= run.started_at


def test_change_of_an_unknown_run_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as database, pytest.raises(RunNotFound), database.write() as tx:
        change_state(tx, "20260101-000000-abcdef", RunState.STARTING, who="browser")


def test_set_state_from_a_state_that_has_passed_changes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.FINISHED)
        with database.write() as tx:
            assert not set_state(tx, run_id, [RunState.RUNNING], RunState.STOPPING, "")
        assert read(database, run_id).state is RunState.FINISHED
