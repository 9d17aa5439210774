"""What a list of runs can be filtered by: fields, terms, and how a filter is written. Pure; knows no SQL."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, Literal

from horizon_app.contracts.run_spec import spec_schema

Operator = Literal["<", "<=", ">", ">=", "=", "!="]
METRIC_KEY = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_.\-]+)+")


class FieldKind(StrEnum):
    """What a field holds, which decides what it can be compared with."""

    TEXT = "text"
    TAG = "tag"
    STATE = "state"
    NUMBER = "number"
    TIME = "time"
    DURATION = "duration"
    METRIC = "metric"
    SPEC = "spec value"
    SPEC_SIZE = "size"


FIELDS: Mapping[str, FieldKind] = {
    "name": FieldKind.TEXT,
    "notes": FieldKind.TEXT,
    "model": FieldKind.TEXT,
    "architecture": FieldKind.TEXT,
    "device": FieldKind.TEXT,
    "id": FieldKind.TEXT,
    "tag": FieldKind.TAG,
    "state": FieldKind.STATE,
    "loss": FieldKind.NUMBER,
    "step": FieldKind.NUMBER,
    "steps": FieldKind.NUMBER,
    "parameters": FieldKind.NUMBER,
    "created": FieldKind.TIME,
    "started": FieldKind.TIME,
    "ended": FieldKind.TIME,
    "duration": FieldKind.DURATION,
}
"""Fields with a name of their own; metrics and spec values are named by their keys."""
NUMERIC = frozenset({FieldKind.NUMBER, FieldKind.METRIC})


@dataclass(frozen=True, slots=True)
class Ago:
    """The moment that lies so many seconds before the filter is asked."""

    seconds: float


Value = float | bool | str | date | datetime | Ago | None
"""Of a number, a duration (seconds) or a size (bytes): a float; of a time: a whole day, a moment, or so long ago.

None is the `null` of a spec."""


@dataclass(frozen=True, slots=True)
class Words:
    """A text that a run has somewhere: in its name, notes, tags, model, spec or id."""

    text: str


@dataclass(frozen=True, slots=True)
class Holds:
    """A text that one field has somewhere in it."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field beside a value. A run that lacks the field is unequal to everything, and nothing else."""

    field: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Not:
    """What a term is not true of."""

    term: "Filter"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of two or more terms."""

    terms: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of two or more terms."""

    terms: tuple["Filter", ...]


Filter = Words | Holds | Comparison | Not | AllOf | AnyOf


class FilterRefused(ValueError):
    """A filter that can't be understood: where, what was expected there, and what to do."""

    def __init__(self, *, column: int, message: str, fix: str = "") -> None:
        self.column, self.fix = column, fix
        self.message = f"column {column}: {message}"
        super().__init__(f"{self.message}; {fix}" if fix else self.message)


@functools.cache
def spec_keys() -> Mapping[str, FieldKind]:
    """Dotted key of every value of the run spec -> its kind."""
    schema = spec_schema()

    def walk(node: dict[str, Any], prefix: str) -> dict[str, FieldKind]:
        found: dict[str, FieldKind] = {}
        for key, child in node["properties"].items():
            inner = schema["$defs"][child["$ref"].split("/")[-1]] if "$ref" in child else child
            if "properties" in inner:
                found |= walk(inner, f"{prefix}{key}.")
            elif prefix:  # name, tags and notes are fields already
                found[f"{prefix}{key}"] = FieldKind.SPEC_SIZE if child.get("x-unit") == "bytes" else FieldKind.SPEC
        return found

    return walk(schema, "")


def field_kind(field: str) -> FieldKind | None:
    """What a field holds; None where there is no such field. Anything shaped like a metric's key is one."""
    kind = FIELDS.get(field) or spec_keys().get(field)
    if kind is None and METRIC_KEY.fullmatch(field):
        return FieldKind.METRIC
    return kind


def format_filter(filter_: Filter) -> str:
    """A filter as it is written; reading that gives an equal one."""
    match filter_:
        case Words(text):
            return _quoted(text)
        case Holds(field, text):
            return f"{field}:{_quoted(text)}"
        case Comparison(field, operator, value):
            return f"{field} {operator} {_value(field, value)}"
        case Not(term):
            return f"not {_grouped(term)}"
        case AllOf(terms):
            return " and ".join(_grouped(term) for term in terms)
        case AnyOf(terms):
            return " or ".join(_grouped(term) for term in terms)


def _grouped(term: Filter) -> str:
    return f"({format_filter(term)})" if isinstance(term, AllOf | AnyOf) else format_filter(term)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _value(field: str, value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(field, value)
        case str():
            return _quoted(value)
        case Ago(seconds):
            return f"{seconds!r}s"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()


def _number(field: str, value: float) -> str:
    kind = field_kind(field)
    if kind is FieldKind.SPEC_SIZE:
        return str(int(value))
    return f"{value!r}s" if kind is FieldKind.DURATION else repr(value)
