"""What SQLite and PostgreSQL say in different words: values inside JSON, and time between two moments."""

from typing import Any

from sqlalchemy import ColumnElement, Float, Text, case, cast, func

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_DAY_S = 86400.0


def json_number(dialect: str, column: Any, *keys: str) -> ColumnElement[float | None]:
    """The number at a place of a JSON column; null where there is none, or something else."""
    if dialect == "postgresql":
        is_number = func.json_typeof(func.json_extract_path(column, *keys, type_=Text), type_=Text) == "number"
        return case((is_number, cast(func.json_extract_path_text(column, *keys, type_=Text), Float)))
    path = _path(keys)
    is_number = func.json_type(column, path, type_=Text).in_(["integer", "real"])
    return case((is_number, func.json_extract(column, path, type_=Float)))


def json_text(dialect: str, column: Any, *keys: str) -> ColumnElement[str | None]:
    """What stands at a place of a JSON column as text, lists as JSON; null where there is null or nothing."""
    if dialect == "postgresql":
        return func.json_extract_path_text(column, *keys, type_=Text)
    path = _path(keys)
    word = func.json_type(column, path, type_=Text)
    bare = func.json_extract(column, path, type_=Text)
    return case((word.in_(["true", "false"]), word), else_=cast(bare, Text))


def json_size(dialect: str, column: Any, *keys: str) -> ColumnElement[float | None]:
    """Bytes of a size as a spec writes it: a number, or text with a unit; null for anything else."""
    text = json_text(dialect, column, *keys)
    sizes = [(text.like(f"%{unit}"), cast(func.replace(text, unit, ""), Float) * factor) for unit, factor in _UNITS]
    return case(*sizes, else_=json_number(dialect, column, *keys))


def seconds_between(dialect: str, start: Any, end: Any) -> ColumnElement[float]:
    """Seconds from one moment to another; null where one of them is."""
    if dialect == "postgresql":
        return cast(func.extract("epoch", end - start), Float)
    return (func.julianday(end, type_=Float) - func.julianday(start, type_=Float)) * _DAY_S


def _path(keys: tuple[str, ...]) -> str:
    return "$" + "".join(f'."{key}"' for key in keys)
