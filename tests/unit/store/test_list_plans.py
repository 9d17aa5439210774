"""How SQLite finds a page of the list: in indexes alone, so that ten thousand long rows are not read."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.contracts.run_state import RunState
from horizon_app.store.run_list import RunFilter, list_runs
from tests.support.stores import add_run, open_store


@pytest.mark.parametrize(
    "which",
    [
        RunFilter(archived=False),
        RunFilter(archived=False, states=(RunState.FAILED,)),
        RunFilter(archived=False, tag="lora"),
        RunFilter(archived=False, sort="loss"),
        RunFilter(archived=False, sort="eval/loss", descending=False),
        RunFilter(archived=False, sort="loss", matching=parse_filter("loss < 1 and eval/loss < 2")),
    ],
)
def test_page_and_counts_are_found_in_indexes_and_only_the_pages_rows_are_read(
    which: RunFilter, tmp_path: Path
) -> None:
    asked: list[tuple[str, Any]] = []
    with open_store(tmp_path) as database:
        add_run(database)
        with database.read() as tx:
            event.listen(tx, "before_cursor_execute", lambda _c, _k, sql, values, *_: asked.append((sql, values)))
            list_runs(tx, which, limit=50)
        assert len(asked) == 2
        with database.read() as tx:
            for sql, values in asked:
                plan = [row[-1] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)]
                of_runs = [line for line in plan if " runs " in line]
                by_id = [line for line in of_runs if "(id=?)" in line]
                assert all("USING COVERING INDEX ix_runs_archived" in line for line in of_runs if line not in by_id), (
                    plan
                )
                assert len(by_id) <= 1 and len(of_runs) - len(by_id) == 1, plan
