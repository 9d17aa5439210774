"""What SQLite and PostgreSQL say in different words: numbers inside JSON, capitals, and time between two moments."""

from typing import Any

from sqlalchemy import ColumnElement, Float, Text, case, cast, func

_DAY_S = 86400.0


def json_number(dialect: str, column: Any, *keys: str) -> ColumnElement[float | None]:
    """The number at a place of a JSON column; null where there is none, or something else."""
    if dialect == "postgresql":
        is_number = func.json_typeof(func.json_extract_path(column, *keys, type_=Text), type_=Text) == "number"
        return case((is_number, cast(func.json_extract_path_text(column, *keys, type_=Text), Float)))
    path = _path(keys)
    is_number = func.json_type(column, path, type_=Text).in_(["integer", "real"])
    return case((is_number, func.json_extract(column, path, type_=Float)))


def part_of(dialect: str, column: Any, text: str) -> ColumnElement[bool]:
    """Whether a column has a text somewhere in it, whatever the capitals; on SQLite those of English letters alone."""
    if dialect == "postgresql":
        return column.icontains(text, autoescape=True)
    return column.contains(text, autoescape=True)  # SQLite's LIKE knows no capitals: no text is copied to lower it


def seconds_between(dialect: str, start: Any, end: Any) -> ColumnElement[float]:
    """Seconds from one moment to another; null where one of them is."""
    if dialect == "postgresql":
        return cast(func.extract("epoch", end - start), Float)
    return (func.julianday(end, type_=Float) - func.julianday(start, type_=Float)) * _DAY_S


def _path(keys: tuple[str, ...]) -> str:
    return "$" + "".join(f'."{key}"' for key in keys)
