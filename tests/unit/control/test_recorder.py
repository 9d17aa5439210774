"""Every journal line once, however often and in whatever pieces it is handed over."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from horizon_app.contracts.events import EVENT, Event, FactNoted, LogWritten, StateChanged, metrics_event
from horizon_app.contracts.run_state import RunState
from horizon_app.control import sparkline
from horizon_app.control.recorder import JournalBatch, note, record_batch
from horizon_app.store.database import Database
from horizon_app.store.events import events_after
from horizon_app.store.metrics import series
from horizon_app.store.runs import StoredRun, get_order, get_run
from horizon_app.store.tables import RunMetricTable, RunTable
from tests.support.stores import add_run, open_store

JOURNAL: list[Event] = [
    LogWritten(message="hello"),
    FactNoted(kind="plan", message="", data={"total_steps": 4, "bad": float("nan")}),
    FactNoted(kind="layout", message="", data={"device": "cpu", "parameters": 64}),
    StateChanged(state=RunState.RUNNING),
    *(metrics_event(step, {"train/loss": 4.0 / step}) for step in range(1, 5)),
    FactNoted(kind="outcome", message="", data={"state": "finished"}),
    StateChanged(state=RunState.FINISHED),
]
LINES = [event.model_dump_json().encode() for event in JOURNAL]


def batch(first: int, last: int, lines: list[bytes] = LINES) -> JournalBatch:
    """Lines `first` to `last`, counted from 1."""
    return JournalBatch(
        first_line=first, end_bytes=sum(len(line) + 1 for line in lines[:last]), lines=lines[first - 1 : last]
    )


def stream(database: Database, run_id: str) -> list[dict[str, Any]]:
    with database.read() as tx:
        return events_after(tx, run_id, 0, limit=1000)


def recorded(database: Database, run_id: str) -> StoredRun:
    with database.read() as tx:
        run = get_run(tx, run_id)
    assert run is not None
    return run


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 10), st.booleans()), max_size=12))
def test_lines_recorded_by_two_recorders_in_any_pieces_are_there_once(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int, bool]]
) -> None:
    with open_store(tmp_path_factory.mktemp("db")) as database:
        run_id = add_run(database, RunState.STARTING)
        for back, count, with_note in [*pieces, (0, len(LINES), False)]:
            done = recorded(database, run_id).journal_seq
            first = max(1, done + 1 - back)  # a recorder that does not know what the other one did reads again
            record_batch(database, run_id, batch(first, min(len(LINES), first + count - 1)))
            if with_note:
                note(database, run_id, [LogWritten(message="note")])
        found = [event for event in stream(database, run_id) if event.get("message") != "note"]
        run = recorded(database, run_id)
    assert [event["seq"] for event in found] == sorted({event["seq"] for event in found})
    assert [event["type"] for event in found] == ["state", *(event.type for event in JOURNAL)]
    assert [event["step"] for event in found if event["type"] == "metrics"] == [1, 2, 3, 4]
    assert (run.state, run.step, run.journal_seq) == (RunState.FINISHED, 4, len(LINES))
    assert run.journal_bytes == sum(len(line) + 1 for line in LINES)


def test_record_fills_the_run_from_facts_and_metrics(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.STARTING)
        run = record_batch(database, run_id, batch(1, len(LINES)))
        with database.read() as tx:
            order = get_order(tx, run_id)
    assert run is not None and order is not None
    assert (run.total_steps, run.device, run.parameters, run.metrics) == (4, "cpu", 64, {"train/loss": 1.0})
    assert order.plan == {"total_steps": 4, "bad": None}
    assert order.outcome == {"state": "finished"}
    assert run.layout_seq == 4


def test_record_of_a_deleted_run_is_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        assert record_batch(database, "20260101-000000-abcdef", batch(1, 2)) is None
        note(database, "20260101-000000-abcdef", [LogWritten(message="")])


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"type":"surprise"}', b"\xff\xfe", b'{"type":"log","message":"\\ud800"}']
)
def test_line_that_is_no_event_becomes_an_error_in_the_log_and_the_next_is_read(tmp_path: Path, line: bytes) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.STARTING)
        record_batch(database, run_id, batch(1, 2, [line, LINES[0]]))
        _, first, second = stream(database, run_id)
    assert (first["type"], first["level"]) == ("log", "error") and "journal line 1" in first["message"]
    assert second["message"] == "hello"


def test_running_from_a_worker_that_was_asked_to_stop_does_not_take_the_stop_back(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.STOPPING)
        run = record_batch(database, run_id, batch(1, 4))
        assert run is not None and run.state is RunState.STOPPING
        assert "ignored" in stream(database, run_id)[-1]["message"]


def test_nan_in_a_journal_never_reaches_the_database(tmp_path: Path) -> None:
    line = b'{"type":"metrics","step":1,"values":{"train/loss":NaN,"a":1.0,"b":Infinity}}'
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.STARTING)
        record_batch(database, run_id, batch(1, 1, [line]))
        found = stream(database, run_id)[-1]
    json.dumps(found, allow_nan=False)
    assert found["values"] == {"train/loss": None, "a": 1.0, "b": None}
    assert found["nonfinite"] == {"train/loss": "nan", "b": "inf"}


def test_recorded_events_are_the_journals_own(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.STARTING)
        record_batch(database, run_id, batch(1, 1))
        found = stream(database, run_id)[-1]
    found.pop("seq")
    assert EVENT.validate_python(found) == JOURNAL[0]


@pytest.mark.parametrize("pieces", [[(1, 7)], [(1, 4), (5, 7)], [(1, 5), (6, 7)]])
def test_run_that_goes_on_from_an_earlier_step_forgets_what_was_measured_behind_it(
    pieces: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Whether all is recorded at once or in pieces; the stream itself keeps what happened."""
    events: list[Event] = [
        *(metrics_event(step, {"train/loss": 4.0 / step}) for step in range(1, 5)),
        FactNoted(kind="resumed", message="", data={"step": 2}),
        metrics_event(3, {"train/loss": 9.0}),
        LogWritten(message="the end"),
    ]
    lines = [event.model_dump_json().encode() for event in events]
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.STARTING)
        for first, last in pieces:
            record_batch(database, run_id, batch(first, last, lines))
        run = recorded(database, run_id)
        with database.read() as tx:
            points = series(tx, run_id, ["train/loss"], first=None, last=None, max_points=100)["train/loss"].points
        steps = [event["step"] for event in stream(database, run_id) if event["type"] == "metrics"]
    assert points == [(1, 4.0), (2, 2.0), (3, 9.0)]
    assert (run.step, sparkline.values(run.sparkline)) == (3, [4.0, 2.0, 9.0])
    assert steps == [1, 2, 3, 4, 3]


@pytest.mark.parametrize("pieces", [[(1, 10)], [(1, 7), (8, 10)]])
def test_run_that_ends_is_listed_with_the_metrics_it_had_by_then(tmp_path: Path, pieces: list[tuple[int, int]]) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database, RunState.STARTING)
        for first, last in pieces:
            record_batch(database, run_id, batch(first, last))
        with database.read() as tx:
            assert tx.execute(select(RunTable.metrics_listed)).scalar_one()
            rows = tx.execute(select(RunMetricTable.run_id, RunMetricTable.key, RunMetricTable.value)).all()
        assert rows == [(run_id, "train/loss", 1.0)]
        assert recorded(database, run_id).metrics == {"train/loss": 1.0}
