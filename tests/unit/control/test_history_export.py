"""Exports hold every point, in strict JSON and in CSV that no spreadsheet runs."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.events import LogWritten
from horizon_app.control import history_export, metric_points
from horizon_app.control.errors import RunNotFound
from horizon_app.control.history import History
from horizon_app.control.history_export import ExportFormat, HistoryExports
from horizon_app.control.metric_points import WINDOW_STEPS
from horizon_app.control.recorder import note
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database
from horizon_app.store.metrics import series
from tests.support.stores import add_measured_run, add_run, open_store, resume_behind

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_store(tmp_path) as database:
        yield database


@pytest.fixture
def exports(database: Database, tmp_path: Path) -> HistoryExports:
    return HistoryExports(database, History(database, AppSettings(home=tmp_path)))


def whole(exports: HistoryExports, run_id: str, form: ExportFormat) -> str:
    return b"".join(exports.export(run_id, form).parts).decode()


def strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_holds_every_step_of_a_run_longer_than_a_window(exports: HistoryExports, database: Database) -> None:
    steps = range(1, 2 * WINDOW_STEPS + 10)
    run_id = add_measured_run(database, {"train/loss": {step: 1.0 / step for step in steps}, "eval/loss": {50: 2.0}})
    body = strict(whole(exports, run_id, ExportFormat.JSON))
    assert body["metrics"]["train/loss"] == {"x": [*steps], "y": [1.0 / step for step in steps]}
    assert body["metrics"]["eval/loss"] == {"x": [50], "y": [2.0]}
    assert body["nonfinite"] == {}
    assert [event["state"] for event in body["events"]] == ["starting", "running", "finished"]
    assert (body["run"]["id"], body["checkpoints"], body["spec"]) == (run_id, [], {})


def test_json_marks_what_was_not_finite(exports: HistoryExports, database: Database) -> None:
    late = WINDOW_STEPS + 1
    series = {"a": {1: NAN, 2: 1.0, late: -INF}, "b": {1: 1.0}, "c": {3: INF}}
    body = strict(whole(exports, add_measured_run(database, series), ExportFormat.JSON))
    assert body["metrics"]["a"] == {"x": [1, 2, late], "y": [None, 1.0, None]}
    assert body["nonfinite"] == {"a": [[1, "nan"], [late, "-inf"]], "c": [[3, "inf"]]}


def test_json_of_a_run_that_never_started_is_whole(exports: HistoryExports, database: Database) -> None:
    body = strict(whole(exports, add_run(database, spec={"model": {"path": 'a"\u2028b'}}), ExportFormat.JSON))
    assert (body["metrics"], body["nonfinite"], body["events"], body["logs"]) == ({}, {}, [], [])
    assert body["spec"]["model"]["path"] == 'a"\u2028b'


def test_json_has_all_log_lines_apart_from_the_events(exports: HistoryExports, database: Database) -> None:
    run_id = add_run(database)
    note(database, run_id, [LogWritten(message=f"line {number}") for number in range(1203)])
    body = strict(whole(exports, run_id, ExportFormat.JSON))
    assert [line["message"] for line in body["logs"]] == [f"line {number}" for number in range(1203)]
    assert body["events"] == []


def test_csv_has_a_row_for_each_step_and_a_column_for_each_metric(exports: HistoryExports, database: Database) -> None:
    late = WINDOW_STEPS + 5
    run_id = add_measured_run(database, {"train/loss": {1: 2.5, 2: NAN, late: -INF}, "eval/loss": {2: 0.1}})
    text = whole(exports, run_id, ExportFormat.CSV)
    assert text.count("\r\n") == text.count("\n") == 4
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows == [
        ["step", "eval/loss", "train/loss"],
        ["1", "", "2.5"],
        ["2", "0.1", "NaN"],
        [str(late), "", "-Infinity"],
    ]


@pytest.mark.parametrize("key", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", '=HYPERLINK("http://x","y")'])
def test_csv_headings_are_no_formulas(key: str, exports: HistoryExports, database: Database) -> None:
    text = whole(exports, add_measured_run(database, {key: {1: 1.0}}), ExportFormat.CSV)
    heading = next(csv.reader(io.StringIO(text, newline="")))[1]
    assert heading == f"'{key}"


def test_json_keeps_what_was_done_again_apart_from_the_metrics(exports: HistoryExports, database: Database) -> None:
    run_id = add_measured_run(database, {"a": {1: 1.0, 2: 2.0, 3: NAN}})
    resume_behind(database, run_id, step=1)
    body = strict(whole(exports, run_id, ExportFormat.JSON))
    assert body["metrics"] == {"a": {"x": [1], "y": [1.0]}}
    assert body["superseded"] == [
        {"segment": 1, "metrics": {"a": {"x": [2, 3], "y": [2.0, None]}}, "nonfinite": {"a": [[3, "nan"]]}}
    ]
    assert [(part["number"], part["void_after"]) for part in body["segments"]] == [(1, 1), (2, None)]


@pytest.mark.parametrize("form", [ExportFormat.CSV, ExportFormat.JSON])
def test_export_is_read_as_it_is_taken(
    form: ExportFormat, exports: HistoryExports, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = add_measured_run(database, {"train/loss": {step: 1.0 / step for step in range(1, 2001)}})
    windows_read: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        windows_read.append(options["first"])
        return series(*arguments, **options)

    monkeypatch.setattr(metric_points, "WINDOW_STEPS", 10)
    monkeypatch.setattr(metric_points, "series", counted)
    monkeypatch.setattr(history_export, "_PIECE", 1000)
    parts = exports.export(run_id, form).parts
    for _ in range(3):
        next(parts)
    assert 0 < len(windows_read) < 100  # of 201
    assert sum(1 for _ in parts) > 10


def test_unknown_run_is_refused_before_anything_is_written(exports: HistoryExports) -> None:
    with pytest.raises(RunNotFound):
        exports.export("nobody", ExportFormat.JSON)
