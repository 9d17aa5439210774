"""Rows of a Parquet file, some hundred at a time. A null inside of a nested value is a field that the row has not."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from importlib import import_module
from typing import IO, Any, cast

from horizon_app.data.errors import BadRow
from horizon_app.data.records import BrokenFile, Record

_ROWS_AT_ONCE = 256


def read_parquet(file: IO[bytes], wanted: Collection[str]) -> Iterator[Record]:
    """Each row with those of the `wanted` columns that are there. Raises BrokenFile, also for a file cut short."""
    arrow, parquet = cast(Any, import_module("pyarrow")), cast(Any, import_module("pyarrow.parquet"))
    try:
        with parquet.ParquetFile(file) as table:
            known = [name for name in table.schema_arrow.names if name in wanted]
            number = 0
            for batch in table.iter_batches(_ROWS_AT_ONCE, columns=known or None):
                size = batch.nbytes // max(1, batch.num_rows)
                for row in batch.to_pylist():
                    number += 1
                    yield Record(number, _without_nested_nulls(row), size)
    except (arrow.ArrowException, OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise BrokenFile(f"the Parquet file can't be read: {words}", "copy it again, or write it anew") from error


def _without_nested_nulls(row: dict[str, Any]) -> dict[str, Any] | BadRow:
    """A struct column has every field in every row, null where the row that was written had none."""
    return {name: _cleaned(value) for name, value in row.items()}


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        inside = cast(dict[str, Any], value)
        return {key: _cleaned(field) for key, field in inside.items() if field is not None}
    if isinstance(value, list):
        items = cast(list[Any], value)
        if items and all(isinstance(item, tuple) for item in items):  # a map column: keys and values
            return {str(key): _cleaned(field) for key, field in items if field is not None}
        return [_cleaned(item) for item in items]
    if isinstance(value, bytes):  # some writers do not say that a column is text
        with suppress(UnicodeDecodeError):
            return value.decode("utf-8")
    return value
