"""How SQLite finds a page of the list: in indexes and short rows alone, so that ten thousand long rows are not read."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.contracts.run_state import RunState
from horizon_app.store.run_list import RunFilter, list_runs
from tests.support.stores import add_run, open_store


def plan_of(which: RunFilter, home: Path) -> list[str]:
    """How SQLite finds a page and counts. A second statement then reads the rows of the page."""
    asked: list[tuple[str, Any]] = []
    with open_store(home) as database:
        add_run(database)
        with database.read() as tx:
            event.listen(tx, "before_cursor_execute", lambda _c, _k, sql, values, *_: asked.append((sql, values)))
            list_runs(tx, which, limit=50)
        (sql, values), (rows, _) = asked
        assert "WHERE runs.id IN" in rows
        with database.read() as tx:
            return [row[-1] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)]


def matching(text: str, sort: str = "created_at") -> RunFilter:
    return RunFilter(matching=parse_filter(text), sort=sort)


@pytest.mark.parametrize(
    ("which", "passes"),
    [
        (RunFilter(), 2),
        (RunFilter(states=(RunState.FAILED,)), 2),
        (RunFilter(sort="loss"), 2),
        (RunFilter(sort="eval/loss", descending=False), 2),
        (RunFilter(sort="name"), 2),
        (RunFilter(sort="model"), 2),
        (RunFilter(sort="time/step"), 1),
        (RunFilter(tag="lora"), 2),
        (matching("loss < 1 and eval/loss < 2", sort="loss"), 2),
        (matching("loss < 2 and tag:lora and model:qwen"), 1),
        (matching("training.learning_rate = 2e-5 or offload.policy:lru"), 2),
        (matching("time/step < 2", sort="throughput/tokens_per_second"), 1),
        (matching("duration > 1h and started > 7d and step < 5", sort="parameters"), 2),
        (matching("qwen or not lo"), 1),
    ],
)  # fmt: skip
def test_page_and_counts_are_found_in_indexes_and_only_the_pages_rows_are_read(
    which: RunFilter, passes: int, tmp_path: Path
) -> None:
    plan = plan_of(which, tmp_path)
    of_runs = [line for line in plan if " runs " in line]
    assert all("USING COVERING INDEX ix_runs_" in line for line in of_runs), plan
    # What takes long to find is found once, and the counts are taken from that.
    assert len(of_runs) == passes, plan


@pytest.mark.parametrize(
    ("which", "table"),
    [
        (RunFilter(tag="lora"), "run_tags USING PRIMARY KEY (tag=?)"),
        (matching("offload.host_memory > 4GiB"), "spec_values USING PRIMARY KEY (key=?)"),
        (matching("time/step < 2"), "run_metrics_1 USING PRIMARY KEY (key=? AND run_id=?) LEFT-JOIN"),
    ],
)
def test_values_are_read_of_one_key_alone(which: RunFilter, table: str, tmp_path: Path) -> None:
    assert f"SEARCH {table}" in plan_of(which, tmp_path)


def test_metrics_are_joined_to_the_shorter_index(tmp_path: Path) -> None:
    plan = plan_of(matching("time/step < 2", sort="throughput/tokens_per_second"), tmp_path)
    index = "ix_runs_archived_at_created_at_id_state_metrics_listed"
    assert f"SEARCH runs USING COVERING INDEX {index} (archived_at=?)" in plan


def test_texts_are_read_once_and_only_where_the_index_of_words_has_something(tmp_path: Path) -> None:
    plan = plan_of(matching("no such words and loss < 2"), tmp_path)
    assert [line for line in plan if " run_texts" in line] == ["SEARCH run_texts USING INTEGER PRIMARY KEY (rowid=?)"]
