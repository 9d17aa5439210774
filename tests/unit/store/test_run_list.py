"""The history: filters, sorting, a cursor that stays right, and ten thousand runs."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horizon_app.contracts.run_state import RunState
from horizon_app.store.database import Database
from horizon_app.store.run_list import SORT_KEYS, BadCursor, RunFilter, StoredPage, list_runs
from horizon_app.store.runs import insert_run, update_run
from tests.support.stores import add_run, new_run, open_store


def page(
    database: Database, which: RunFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> StoredPage:
    with database.read() as tx:
        return list_runs(tx, which or RunFilter(), limit=limit, cursor=cursor)


def names(database: Database, which: RunFilter) -> set[str]:
    return {run.name for run in page(database, which).runs}


def test_list_filters_by_state_tag_and_text(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        add_run(database, RunState.FINISHED, name="alpha", tags=["lora", "v1"])
        add_run(database, RunState.FAILED, name="beta 100%", tags=["lo"], notes="see Alpha")
        add_run(database, name="gamma", tags=['a"b', "日本"], model_name="llama")
        assert names(database, RunFilter(states=(RunState.FINISHED, RunState.FAILED))) == {"alpha", "beta 100%"}
        assert names(database, RunFilter(tag="lo")) == {"beta 100%"}
        assert names(database, RunFilter(tag='a"b')) == {"gamma"} == names(database, RunFilter(tag="日本"))
        assert names(database, RunFilter(text="ALPHA")) == {"alpha", "beta 100%"}
        assert names(database, RunFilter(text="0%")) == {"beta 100%"}
        assert names(database, RunFilter(text="_")) == set()
        assert names(database, RunFilter(text="llama")) == {"gamma"}


def test_counts_ignore_the_state_filter_and_total_does_not(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        for _ in range(3):
            add_run(database, RunState.FINISHED)
        add_run(database)
        found = page(database, RunFilter(states=(RunState.QUEUED,)), limit=1)
    assert (found.total, found.counts[RunState.FINISHED], found.counts[RunState.QUEUED]) == (1, 3, 1)
    assert set(found.counts) == set(RunState)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(SORT_KEYS),
    st.booleans(),
    st.integers(1, 5),
    st.lists(st.sampled_from([None, 0.5, 2.0]), max_size=8),
)
def test_pages_by_any_key_give_every_run_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, sort: str, descending: bool, limit: int, losses: list[float | None]
) -> None:
    which = RunFilter(sort=sort, descending=descending)
    with open_store(tmp_path_factory.mktemp("db")) as database:
        for number, loss in enumerate(losses):
            run_id = add_run(database, name=f"n{number % 3}")
            with database.write() as tx:
                update_run(tx, run_id, loss=loss, step=number % 2)
        everything = [run.id for run in page(database, which, limit=100).runs]
        walked: list[str] = []
        cursor = None
        while True:
            found = page(database, which, limit=limit, cursor=cursor)
            walked += [run.id for run in found.runs]
            cursor = found.next_cursor
            if cursor is None:
                break
    assert walked == everything
    assert len(set(walked)) == len(losses)


def test_cursor_is_right_although_runs_come_in_between(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        old = [add_run(database) for _ in range(4)]
        first = page(database, limit=2)
        add_run(database)
        second = page(database, limit=2, cursor=first.next_cursor)
    assert [run.id for run in first.runs + second.runs] == old[::-1]


@pytest.mark.parametrize("cursor", ["", "x", "e30", "WyJuYW1lIiwiYSIsImIiXQ", "/" * 50])
def test_cursor_that_this_list_did_not_give_out_is_refused(tmp_path: Path, cursor: str) -> None:
    with open_store(tmp_path) as database, pytest.raises(BadCursor):
        page(database, cursor=cursor)


def test_ten_thousand_runs_are_listed_quickly(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        with database.write() as tx:
            for number in range(10_000):
                insert_run(tx, new_run(number, name=f"run {number}", spec={"big": "x" * 500}))
        began = time.process_time()
        found = page(database)
        deep = page(database, RunFilter(text="run 77"), limit=50, cursor=found.next_cursor)
        used_s = time.process_time() - began
    assert found.total == 10_000 and len(found.runs) == 50
    assert deep.total == 111
    assert used_s < 0.5
