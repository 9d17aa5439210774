"""Pages of a log: in order, of a level, with a text, and never more looked at than is bounded."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event

from horizon_app.contracts.events import LogWritten, metrics_event
from horizon_app.store import events as module
from horizon_app.store.database import Database, Transaction
from horizon_app.store.events import LogFilter, NewEvent, append_events, log_lines
from tests.support.stores import add_run, open_store

LINES = 300
LEVELS = {0: "error", 10: "warning", 20: "debug"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, str]]:
    """A run with a metric after every log line: line N lies at the place 2 N."""
    with open_store(tmp_path_factory.mktemp("db")) as database:
        run_id = add_run(database)
        rows: list[NewEvent] = []
        for number in range(1, LINES + 1):
            level: Any = LEVELS.get(number % 100, "info")
            line = LogWritten(level=level, message=f"line {number}{' 100%' if number == 7 else ''}")
            rows.append(NewEvent(seq=2 * number, journal_seq=None, event=line))
            rows.append(NewEvent(seq=2 * number + 1, journal_seq=None, event=metrics_event(number, {"a": 1.0})))
        with database.write() as tx:
            append_events(tx, run_id, rows)
        yield database, run_id


def numbers(page: module.LogPage) -> list[int]:
    return [line.seq // 2 for line in page.lines]


def all_pages(tx: Transaction, run_id: str, *, limit: int, forward: bool, **which: Any) -> list[int]:
    """What following `scanned_to` until the end gives, oldest first."""
    found: list[int] = []
    place: dict[str, Any] = {"after": 0} if forward else {}
    while True:
        page = log_lines(tx, run_id, LogFilter(**place, **which), limit=limit)
        found = found + numbers(page) if forward else numbers(page) + found
        if page.scanned_to is None:
            return found
        place = {"after" if forward else "before": page.scanned_to}


def test_newest_lines_and_those_behind_and_before_a_place_come_in_order(log: tuple[Database, str]) -> None:
    database, run_id = log
    with database.read() as tx:
        assert numbers(log_lines(tx, run_id, LogFilter(), limit=3)) == [298, 299, 300]
        assert numbers(log_lines(tx, run_id, LogFilter(before=20), limit=3)) == [7, 8, 9]
        assert numbers(log_lines(tx, run_id, LogFilter(after=20), limit=3)) == [11, 12, 13]
        assert numbers(log_lines(tx, run_id, LogFilter(text="LINE 29"), limit=3)) == [297, 298, 299]
        assert numbers(log_lines(tx, run_id, LogFilter(text="0%"), limit=3)) == [7]


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("scan", [1, 7, 100, 20_000])
@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ({}, list(range(1, LINES + 1))),
        ({"text": "line 1"}, [n for n in range(1, LINES + 1) if str(n).startswith("1")]),
        ({"level": "info"}, [n for n in range(1, LINES + 1) if n % 100 != 20]),
        ({"level": "warning"}, [10, 100, 110, 200, 210, 300]),
        ({"level": "error", "text": "00"}, [100, 200, 300]),
        ({"text": "nowhere"}, []),
    ],
)
def test_pages_that_stop_searching_early_lead_to_every_line_once(
    log: tuple[Database, str],
    which: dict[str, Any],
    expected: list[int],
    scan: int,
    forward: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SCAN_LINES", scan)
    database, run_id = log
    with database.read() as tx:
        assert all_pages(tx, run_id, limit=11, forward=forward, **which) == expected


def test_search_for_what_is_nowhere_stops_at_its_bound(
    log: tuple[Database, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCAN_LINES", 50)
    database, run_id = log
    with database.read() as tx:
        page = log_lines(tx, run_id, LogFilter(text="nowhere"), limit=10)
    assert (page.lines, page.scanned_to) == ([], 2 * 251)


@pytest.mark.parametrize(
    ("level", "index"), [(None, "ix_events_run_id_type_seq"), ("error", "ix_events_run_id_seq_troubles")]
)
def test_lines_are_found_by_an_index_in_order(log: tuple[Database, str], level: str | None, index: str) -> None:
    database, run_id = log
    asked: list[tuple[str, Any]] = []
    with database.read() as tx:
        event.listen(tx, "before_cursor_execute", lambda _c, _k, sql, values, *_: asked.append((sql, values)))
        log_lines(tx, run_id, LogFilter(level=level, text="x"), limit=10)
    with database.read() as tx:
        for sql, values in asked:
            plan = [row[-1] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)]
            assert len(plan) == 1 and plan[0].startswith("SEARCH") and index in plan[0], plan
