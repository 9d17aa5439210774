"""Everything of a run, for others: JSON with every point, CSV with a row per optimizer step, a report in HTML.

JSON and CSV are written out as they are read. Memory stays flat whatever the run's length: points are read in windows,
events in pages, and what has to wait for its place in the document waits in a temporary file.
"""

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any

from horizon_app.contracts.run_view import RunDetail
from horizon_app.control.history import TIMELINE_TYPES, History
from horizon_app.control.metric_points import windows
from horizon_app.store.database import Database, dump_json
from horizon_app.store.knobs import changes_of
from horizon_app.store.metrics import StoredSeries, metric_keys
from horizon_app.store.segments import superseded_series

_PAGE_EVENTS = 500
_KEPT_IN_MEMORY = 1 << 20
_PIECE = 1 << 16
_APART = {"spec", "checkpoints", "segments"}
_ALL = 1 << 62
_FLAGS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class ExportFormat(StrEnum):
    """What a history is exported as."""

    CSV = "csv"
    JSON = "json"
    HTML = "html"


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryFile:
    """An export under way."""

    name: str
    """Of the run and the format; any text, to be made safe by whoever makes a file of it."""
    media_type: str
    parts: Iterator[bytes]


class HistoryExports:
    """Writes histories out."""

    def __init__(self, database: Database, history: History) -> None:
        self._database = database
        self._history = history

    def export(self, run_id: str, form: ExportFormat) -> HistoryFile:
        """Begin an export; its parts are read as they are asked for. Raises RunNotFound."""
        run = self._history.run(run_id)
        ways: dict[ExportFormat, tuple[str, Callable[[RunDetail], Iterator[bytes]]]] = {
            ExportFormat.CSV: ("text/csv; charset=utf-8", self._csv),
            ExportFormat.JSON: ("application/json", self._json),
            ExportFormat.HTML: ("text/html; charset=utf-8", self._html),
        }
        media_type, write = ways[form]
        return HistoryFile(name=f"{run.name}.{form.value}", media_type=media_type, parts=_gathered(write(run)))

    def _keys(self, run: RunDetail) -> list[str]:
        with self._database.read() as tx:
            return metric_keys(tx, run.id)

    def _csv(self, run: RunDetail) -> Iterator[bytes]:
        """RFC 4180: a header, then a row per optimizer step; what was not measured is empty."""
        keys = self._keys(run)
        yield _csv_lines([["step", *map(_no_formula, keys)]])
        for window in windows(self._database, run.id, keys, run.step):
            rows: dict[int, list[Any]] = {}
            for column, key in enumerate(keys, start=1):
                for step, value in _with_flags(window.series[key]):
                    rows.setdefault(step, [step, *[""] * len(keys)])[column] = value
            if rows:
                yield _csv_lines([rows[step] for step in sorted(rows)])

    def _html(self, run: RunDetail) -> Iterator[bytes]:
        from horizon_app.control.reports.run_report import run_report  # here: the server starts without templates

        yield run_report(self._database, self._history, run).encode()

    def _json(self, run: RunDetail) -> Iterator[bytes]:
        body = run.model_dump(mode="json")
        yield f'{{"run":{dump_json({key: value for key, value in body.items() if key not in _APART})}'.encode()
        yield f',"spec":{dump_json(body["spec"])}'.encode()
        yield from self._json_metrics(run)
        yield from self._json_list("events", self._events(run.id, TIMELINE_TYPES))
        yield from self._json_list("logs", self._events(run.id, ("log",)))
        with self._database.read() as tx:
            changes = [change.model_dump(mode="json") for change in changes_of(tx, run.id)]
        checks = [check.model_dump(mode="json") for check in self._history.checks(run.id).checks]
        yield f',"knobs":{dump_json(changes)},"checks":{dump_json(checks)}'.encode()
        yield f',"segments":{dump_json(body["segments"])}'.encode()
        yield from self._json_list("superseded", self._superseded(run.id))
        yield f',"checkpoints":{dump_json(body["checkpoints"])}}}\n'.encode()

    def _json_metrics(self, run: RunDetail) -> Iterator[bytes]:
        """`metrics` (key -> x and y, every point), then `nonfinite` (key -> steps at which y is null, and why)."""
        yield b',"metrics":{'
        with tempfile.SpooledTemporaryFile(_KEPT_IN_MEMORY) as flags:
            for number, key in enumerate(self._keys(run)):
                yield f"{',' if number else ''}{json.dumps(key)}:".encode()
                yield from self._json_series(run, key, flags)
            yield b'},"nonfinite":{'
            yield from _pieces(flags)
        yield b"}"

    def _json_series(self, run: RunDetail, key: str, flags: IO[bytes]) -> Iterator[bytes]:
        found, flagged = 0, 0
        yield b'{"x":['
        with tempfile.SpooledTemporaryFile(_KEPT_IN_MEMORY) as values:
            for window in windows(self._database, run.id, [key], run.step):
                points, odd = window.series[key].points, window.series[key].nonfinite
                if points:
                    comma = b"," if found else b""
                    yield comma + _numbers([step for step, _ in points])
                    values.write(comma + _numbers([value for _, value in points]))
                    found += len(points)
                if odd:
                    lead = b"," if flagged else b"," * (flags.tell() > 0) + f"{json.dumps(key)}:[".encode()
                    flags.write(lead + _numbers([list(pair) for pair in odd]))
                    flagged += len(odd)
            yield b'],"y":['
            yield from _pieces(values)
        flags.write(b"]" if flagged else b"")
        yield b"]}"

    def _json_list(self, name: str, items: Iterator[Any]) -> Iterator[bytes]:
        yield f',"{name}":['.encode()
        for number, item in enumerate(items):
            yield f"{',' if number else ''}{dump_json(item)}".encode()
        yield b"]"

    def _superseded(self, run_id: str) -> Iterator[Any]:
        """What each segment measured of steps that a later one did again: a tail of the run, so read at once."""
        with self._database.read() as tx:
            found = superseded_series(tx, run_id, None, first=None, last=None, max_points=_ALL)
        for segment, series in found.items():
            metrics = {key: {"x": one.steps, "y": one.values} for key, one in series.items()}
            flags = {key: one.nonfinite for key, one in series.items() if one.nonfinite}
            yield {"segment": segment, "metrics": metrics, "nonfinite": flags}

    def _events(self, run_id: str, types: tuple[str, ...]) -> Iterator[Any]:
        after = 0
        while True:
            page, _ = self._history.events(run_id, after=after, limit=_PAGE_EVENTS, types=types)
            for frame in page:
                yield frame.model_dump(mode="json")
                after = frame.seq
            if len(page) < _PAGE_EVENTS:
                return


def _gathered(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer parts: each part that is sent costs a turn of a thread."""
    gathered = bytearray()
    for part in parts:
        gathered += part
        if len(gathered) >= _PIECE:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _with_flags(series: StoredSeries) -> Iterator[tuple[int, float | str]]:
    flags = dict(series.nonfinite)
    for step, value in series.points:
        if value is not None:
            yield step, value
        elif step in flags:
            yield step, _FLAGS[flags[step]]


def _csv_lines(rows: list[list[Any]]) -> bytes:
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return lines.getvalue().encode()


def _no_formula(heading: str) -> str:
    """A heading that a spreadsheet does not run: metric keys come from the worker, and so from anybody's code."""
    return f"'{heading}" if heading.startswith(("=", "+", "-", "@", "\t", "\r")) else heading


def _numbers(values: list[Any]) -> bytes:
    """The inside of a JSON list."""
    return dump_json(values)[1:-1].encode()


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    content.seek(0)
    while piece := content.read(_PIECE):
        yield piece
