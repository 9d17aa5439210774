"""From a filter's terms to a condition on the rows of runs; the same on every database."""

from datetime import UTC, date, datetime, timedelta
from datetime import time as midnight
from typing import Any

from sqlalchemy import ColumnElement, Float, and_, case, cast, false, func, literal, not_, or_

from horizon_app.contracts.run_filter import (
    Ago,
    AllOf,
    AnyOf,
    Comparison,
    FieldKind,
    Filter,
    Holds,
    Not,
    Operator,
    Value,
    Words,
    field_kind,
)
from horizon_app.contracts.run_state import LIVE
from horizon_app.store import run_texts
from horizon_app.store.sql_functions import json_number, json_size, json_text, seconds_between
from horizon_app.store.tables import RunTable, UtcTime

_T = RunTable
_EQUAL_WITHIN = 1e-9
"""Share of a number by which another may differ and still equal it: decimals of JSON are not read alike everywhere."""
NUMBERS: dict[str, Any] = {"loss": _T.loss, "step": _T.step, "steps": _T.total_steps, "parameters": _T.parameters}
KEPT: dict[str, Any] = {"train/loss": _T.loss, "eval/loss": _T.eval_loss}
"""Metrics whose last value has a column of its own: those that are asked for most."""
TIMES: dict[str, Any] = {"created": _T.created_at, "started": _T.started_at, "ended": _T.ended_at}


def condition(filter_: Filter, *, dialect: str, now: datetime) -> ColumnElement[bool]:
    """A condition that is true or false of every run, never null."""

    def compiled(term: Filter) -> ColumnElement[bool]:
        match term:
            case Words(text):
                return run_texts.holds(dialect, text)
            case Holds(field, text):
                return _holds(dialect, field, text)
            case Comparison(field, "!=", value):
                return not_(compiled(Comparison(field, "=", value)))
            case Comparison():
                return _compared(dialect, term, now)
            case Not(inner):
                return not_(compiled(inner))
            case AllOf(terms):
                return and_(*(compiled(one) for one in terms))
            case AnyOf(terms):
                return or_(*(compiled(one) for one in terms))

    return compiled(filter_)


def duration(dialect: str, now: datetime) -> ColumnElement[float | None]:
    """Seconds a run has run in all its lives, one that is live until now; null for one that never started."""
    lives = _T.state.in_([state.value for state in LIVE])
    this_life = case((lives, seconds_between(dialect, _T.started_at, literal(now, UtcTime))), else_=0.0)
    return case((_T.started_at.is_not(None), _T.ran_s + this_life))


def metric(dialect: str, key: str) -> ColumnElement[float | None]:
    """Last value of a metric; null where there is none or it was not finite."""
    return KEPT[key] if key in KEPT else json_number(dialect, _T.metrics, key)


def _holds(dialect: str, field: str, text: str) -> ColumnElement[bool]:
    if field_kind(field) is FieldKind.TEXT:
        return run_texts.holds(dialect, text, field)
    value = json_text(dialect, _T.spec, *field.split("."))
    return _never_null(value.icontains(text, autoescape=True))


def _compared(dialect: str, term: Comparison, now: datetime) -> ColumnElement[bool]:
    kind, value = field_kind(term.field), term.value
    if kind is FieldKind.TAG:
        return run_texts.has_tag(dialect, str(value))
    if kind is FieldKind.STATE:
        return _T.state == value
    if kind is FieldKind.TEXT:
        return run_texts.equals(str(value), term.field)
    if kind is FieldKind.TIME:
        return _timed(TIMES[term.field], term.operator, value, now)
    if kind is FieldKind.DURATION:
        return _ordered(duration(dialect, now), term.operator, value)
    if kind is FieldKind.NUMBER:
        return _ordered(cast(NUMBERS[term.field], Float), term.operator, value)
    if kind is FieldKind.METRIC:
        return _ordered(metric(dialect, term.field), term.operator, value)
    return _of_spec(dialect, term, in_bytes=kind is FieldKind.SPEC_SIZE)


def _of_spec(dialect: str, term: Comparison, *, in_bytes: bool) -> ColumnElement[bool]:
    place, value = term.field.split("."), term.value
    text = json_text(dialect, _T.spec, *place)
    if value is None:
        return text.is_(None)
    if isinstance(value, bool):
        return _never_null(text == ("true" if value else "false"))
    if isinstance(value, str):
        return _never_null(func.lower(text) == value.lower())
    number = (json_size if in_bytes else json_number)(dialect, _T.spec, *place)
    return _ordered(number, term.operator, value)


def _ordered(found: ColumnElement[Any], operator: Operator, value: Value) -> ColumnElement[bool]:
    assert isinstance(value, float)
    wanted = literal(value, Float)
    match operator:
        case "<":
            true = found < wanted
        case "<=":
            true = found <= wanted
        case ">":
            true = found > wanted
        case ">=":
            true = found >= wanted
        case _:
            slack = abs(value) * _EQUAL_WITHIN
            true = found.between(literal(value - slack, Float), literal(value + slack, Float))
    return _never_null(true)


def _timed(found: Any, operator: Operator, value: Value, now: datetime) -> ColumnElement[bool]:
    """A day is compared as a whole: `>` is after its end, `=` within it."""
    first = _moment(value, now)
    whole_day = isinstance(value, date) and not isinstance(value, datetime)
    behind = first + timedelta(days=1) if whole_day else None
    match operator:
        case "<":
            true = found < first
        case "<=":
            true = found <= first if behind is None else found < behind
        case ">":
            true = found > first if behind is None else found >= behind
        case ">=":
            true = found >= first
        case _:
            true = found == first if behind is None else and_(found >= first, found < behind)
    return _never_null(true)


def _moment(value: Value, now: datetime) -> datetime:
    if isinstance(value, Ago):
        return now - timedelta(seconds=value.seconds)
    if isinstance(value, datetime):
        return value
    assert isinstance(value, date)
    return datetime.combine(value, midnight(), UTC)


def _never_null(true: ColumnElement[bool]) -> ColumnElement[bool]:
    return func.coalesce(true, false())
