"""Which container a file is, by its content: JSON lines, a JSON array or objects, CSV, Parquet, or one text."""

import itertools
import json
import shutil
import tempfile
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, cast

from horizon_app.data import shapes
from horizon_app.data.csv_rows import columns_of, read_csv
from horizon_app.data.files import compression, inner_suffix, is_document, open_bytes
from horizon_app.data.json_text import WRAPPERS, read_json_text
from horizon_app.data.lines import Line, read_lines
from horizon_app.data.parquet_rows import read_parquet
from horizon_app.data.records import Record, read_json_lines

_PARQUET = b"PAR1"
_MOST_BLANK_LINES = 1000
_START_BYTES = 1 << 16
_MOST_LINE_BYTES = 16 << 20
"""A first line that is longer is not looked at to find the container."""


class Container(StrEnum):
    """How rows lie in a file."""

    JSON_LINES = "JSON lines"
    JSON = "JSON"
    CSV = "CSV"
    PARQUET = "Parquet"
    TEXT = "text"


class Found(NamedTuple):
    """A file's container, and what told it."""

    container: Container
    reason: str


def find_container(path: Path, *, as_text: bool) -> Found:
    """The container of a file; `as_text` takes a .txt or .md file for a text whatever it holds. Raises Unreadable."""
    with open_bytes(path) as file:
        start = file.read(_START_BYTES)
    if start.startswith(_PARQUET) or inner_suffix(path) == ".parquet":
        told = "the file begins with PAR1" if start.startswith(_PARQUET) else "its name ends so"
        return Found(Container.PARQUET, told)
    begins = start.removeprefix(BOM_UTF8).lstrip()[:1]
    document = is_document(path)
    if begins == b"[" and not document:
        return Found(Container.JSON, "the file begins with a bracket: a JSON array")
    with open_bytes(path) as file:
        first, second = _first_lines(read_lines(file, most_bytes=_MOST_LINE_BYTES))
    if document and (as_text or not _is_row(first)):
        return Found(Container.TEXT, f"a {inner_suffix(path)} file is one text")
    if begins == b"{":
        if not first and b"\n" not in start:
            return Found(Container.JSON, "a JSON object of many MiB on one line")
        return _json_layout(first, second)
    if inner_suffix(path) == ".csv" or _has_row_columns(first):
        return Found(Container.CSV, f"the first line names the columns {', '.join(columns_of(first)[:8])}")
    return Found(Container.JSON_LINES, f"a {inner_suffix(path)} file that begins with neither a brace nor a bracket")


def read_records(path: Path, found: Found, on_duplicate: Callable[[int, str], None]) -> Iterator[Record]:
    """The rows of a file that is no text. Raises Unreadable and BrokenFile."""
    if found.container is Container.PARQUET:
        yield from _parquet(path)
        return
    with open_bytes(path) as file:
        if found.container is Container.CSV:
            yield from read_csv(file)
        elif found.container is Container.JSON:
            yield from read_json_text(file, on_duplicate, shapes.is_row_key)
        else:
            yield from read_json_lines(file, on_duplicate)


def _first_lines(lines: Iterator[object]) -> tuple[str, str]:
    """The first two lines that are not blank, without what surrounds their words; empty where there are none."""
    texts = (line.text.strip() for line in itertools.islice(lines, _MOST_BLANK_LINES) if isinstance(line, Line))
    some = itertools.chain(filter(None, texts), itertools.repeat(""))
    return next(some), next(some)


def _json_layout(first: str, second: str) -> Found:
    """For a file that begins with a brace."""
    lines = Found(Container.JSON_LINES, "each line is a JSON object")
    row = _object(first)
    if row is not None:
        wraps = not second and not shapes.has_shape(row) and any(isinstance(row.get(key), list) for key in WRAPPERS)
        return Found(Container.JSON, "one JSON object around the rows") if wraps else lines
    if _object(second) is not None or not first or not _goes_on(first):
        return lines  # whose first line is broken
    return Found(Container.JSON, "JSON objects over several lines")


def _goes_on(line: str) -> bool:
    """Whether JSON breaks off at a line's end where it may: behind a brace, bracket, comma or colon."""
    return line[-1] in "{[,:"


def _object(text: str) -> dict[str, object] | None:
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        if isinstance(value, dict):
            return cast(dict[str, object], value)
    return None


def _is_row(line: str) -> bool:
    row = _object(line) if line.startswith("{") else None
    return row is not None and shapes.has_shape(row)


def _has_row_columns(line: str) -> bool:
    columns = columns_of(line)
    return len(columns) > 1 and shapes.has_shape(dict.fromkeys(columns))


def _parquet(path: Path) -> Iterator[Record]:
    """Parquet is read from its end, so a compressed file is unpacked beside it first."""
    with open_bytes(path) as file:
        if not compression(path):
            yield from read_parquet(file, shapes.ROW_KEYS)
            return
        with tempfile.TemporaryFile() as plain:
            shutil.copyfileobj(file, plain)
            yield from read_parquet(plain, shapes.ROW_KEYS)
