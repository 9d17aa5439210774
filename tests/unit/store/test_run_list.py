"""The history: filters, sorting, a cursor that stays right, and ten thousand runs."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.contracts.run_state import RunState
from horizon_app.store.database import Database
from horizon_app.store.run_list import SORT_KEYS, BadCursor, RunFilter, StoredPage, list_runs
from horizon_app.store.runs import delete_run, update_run
from tests.support.stores import add_run, open_store

pytestmark = pytest.mark.usefixtures("any_database")


def page(
    database: Database, which: RunFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> StoredPage:
    with database.read() as tx:
        return list_runs(tx, which or RunFilter(), limit=limit, cursor=cursor)


def matching(text: str) -> RunFilter:
    return RunFilter(matching=parse_filter(text))


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
        assert names(database, matching("ALPHA")) == {"alpha", "beta 100%"}
        assert names(database, matching("0%")) == {"beta 100%"}
        assert names(database, matching("_")) == set()
        assert names(database, matching("llama")) == {"gamma"}


def test_words_are_found_wherever_they_stand_in_any_script_and_by_a_part(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        ours = add_run(
            database, name="Überlauf 中文训练", notes="the disk was full", spec={"data": {"path": "d/Fakten.jsonl"}}
        )
        add_run(database, name="another")
        for text in ("überlauf", "文训", "中文训练", ["disk", "WAS"][0], '"k was f"', "fakten.js", ours, "name:中"):
            assert names(database, matching(text)) == {"Überlauf 中文训练"}, text
        assert names(database, matching("path")) == set()


def test_words_follow_every_change_of_a_run(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, name="before", notes="old words")
        with database.write() as tx:
            update_run(tx, run_id, name="after", notes="new words", spec={"offload": {"policy": "lru"}})
        assert [names(database, matching(text)) for text in ("before", "old", "after new lru")] == [
            set(), set(), {"after"},
        ]  # fmt: skip
        with database.write() as tx:
            delete_run(tx, run_id)
        add_run(database, name="next")
        assert names(database, matching("after")) == set() and names(database, matching("next")) == {"next"}


def test_list_sorts_by_the_last_value_of_any_metric_and_by_duration(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        started = datetime.now(UTC) - timedelta(hours=1)
        for name, speed, state, ran_s in (
            ("slow", 1.5, RunState.FINISHED, 1800.0), ("none", None, RunState.QUEUED, None),
            ("fast", 10.0, RunState.FAILED, 300.0), ("live", 9.0, RunState.RUNNING, 60.0),
        ):  # fmt: skip
            run_id = add_run(database, state, name=name)
            metrics = {} if speed is None else {"throughput/tokens_per_second": speed}
            with database.write() as tx:
                update_run(tx, run_id, metrics=metrics)
                if ran_s is not None:
                    update_run(tx, run_id, started_at=started, ran_s=ran_s)

        def order(sort: str) -> list[str]:
            return [run.name for run in page(database, RunFilter(sort=sort)).runs]

        assert order("throughput/tokens_per_second") == ["fast", "live", "slow", "none"]
        assert order("duration") == ["live", "slow", "fast", "none"]


def test_pages_by_duration_keep_to_the_moment_of_the_first_one(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        for _ in range(4):
            run_id = add_run(database, RunState.RUNNING)
            with database.write() as tx:
                update_run(tx, run_id, started_at=datetime.now(UTC) - timedelta(seconds=10))
        which, walked, cursor = RunFilter(sort="duration", descending=False), list[str](), None
        for _ in range(4):
            found = page(database, which, limit=1, cursor=cursor)
            walked += [run.id for run in found.runs]
            cursor = found.next_cursor
    assert len(set(walked)) == 4 and cursor is None


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


def _cursor(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


FORGED = [
    ("created_at", "2026-01-01T00:00:00", "r", "2026-01-01T00:00:00+00:00"),
    ("created_at", 7, "r", "2026-01-01T00:00:00+00:00"),
    ("created_at", "2026-01-01T00:00:00+00:00", "r", "now"),
    ("created_at", "2026-01-01T00:00:00+00:00", "r\0", "2026-01-01T00:00:00+00:00"),
    ("created_at", "2026-01-01T00:00:00+00:00", 7, "2026-01-01T00:00:00+00:00"),
]


@pytest.mark.parametrize(
    "cursor", ["", "x", "e30", "WyJuYW1lIiwiYSIsImIiXQ", "/" * 50, *(_cursor(*parts) for parts in FORGED)]
)
def test_cursor_that_this_list_did_not_give_out_is_refused(tmp_path: Path, cursor: str) -> None:
    with open_store(tmp_path) as database, pytest.raises(BadCursor):
        page(database, cursor=cursor)
