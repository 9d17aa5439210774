"""From a filter's terms to a condition on the rows of runs; the same on every database."""

from collections.abc import Iterator
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
from horizon_app.store import run_texts, run_values
from horizon_app.store.run_values import LastMetrics
from horizon_app.store.sql_functions import seconds_between
from horizon_app.store.tables import RunTable, UtcTime

_T = RunTable
_EQUAL_WITHIN = 1e-9
"""Share of a number by which another may differ and still equal it: decimals of JSON are not read alike everywhere."""
NUMBERS: dict[str, Any] = {"loss": _T.loss, "step": _T.step, "steps": _T.total_steps, "parameters": _T.parameters}
KEPT: dict[str, Any] = {"train/loss": _T.loss, "eval/loss": _T.eval_loss}
"""Metrics whose last value has a column of its own: those that are asked for most."""
TIMES: dict[str, Any] = {"created": _T.created_at, "started": _T.started_at, "ended": _T.ended_at}


def condition(filter_: Filter, *, metrics: LastMetrics, now: datetime) -> ColumnElement[bool]:
    """A condition that is true or false of every run, never null; the metrics it asks for have to be joined."""
    dialect = metrics.dialect

    def compiled(term: Filter, *, of_texts: bool = False) -> ColumnElement[bool]:
        """`of_texts`: as a condition on the row of a run's texts, since nothing but texts is asked for."""
        if not of_texts and _is_of_texts(term):
            return run_texts.among(compiled(term, of_texts=True))
        match term:
            case Words(text):
                return run_texts.holds(dialect, text)
            case Holds(field, text) if of_texts:
                return run_texts.holds(dialect, text, field)
            case Holds(field, text):
                return run_values.has_value(field, run_values.spec_text.contains(text.casefold(), autoescape=True))
            case Comparison(field, "!=", value):
                return not_(compiled(Comparison(field, "=", value), of_texts=of_texts))
            case Comparison(field, _, value) if of_texts:
                return run_texts.equals(str(value), field)
            case Comparison():
                return _compared(metrics, term, now)
            case Not(inner):
                return not_(compiled(inner, of_texts=of_texts))
            case AllOf(terms):
                return and_(*(compiled(one, of_texts=of_texts) for one in _gathered(AllOf, terms)))
            case AnyOf(terms):
                return or_(*(compiled(one, of_texts=of_texts) for one in _gathered(AnyOf, terms)))

    return compiled(filter_)


def reads_texts(filter_: Filter) -> bool:
    """Whether texts are asked for, which are long."""
    return any(isinstance(leaf, Words) or field_kind(leaf.field) is FieldKind.TEXT for leaf in _leaves(filter_))


def _leaves(term: Filter) -> Iterator[Words | Holds | Comparison]:
    match term:
        case Not(inner):
            yield from _leaves(inner)
        case AllOf(terms) | AnyOf(terms):
            for one in terms:
                yield from _leaves(one)
        case _:
            yield term


def _is_of_texts(term: Filter) -> bool:
    """Whether nothing but texts is asked for."""
    return all(isinstance(leaf, Words) or field_kind(leaf.field) is FieldKind.TEXT for leaf in _leaves(term))


def _gathered(join: type[AllOf | AnyOf], terms: tuple[Filter, ...]) -> list[Filter]:
    """The same terms with those about texts as one, the last: texts are long, and so are read once, if at all."""
    texts = tuple(term for term in terms if _is_of_texts(term))
    rest = [term for term in terms if not _is_of_texts(term)]
    return [*rest, join(texts)] if rest and len(texts) > 1 else [*rest, *texts]


def duration(dialect: str, now: datetime) -> ColumnElement[float | None]:
    """Seconds a run has run in all its lives, one that is live until now; null for one that never started."""
    lives = _T.state.in_([state.value for state in LIVE])
    this_life = case((lives, seconds_between(dialect, _T.started_at, literal(now, UtcTime))), else_=0.0)
    return case((_T.started_at.is_not(None), _T.ran_s + this_life))


def metric(metrics: LastMetrics, key: str) -> ColumnElement[float | None]:
    """Last value of a metric; null where there is none or it was not finite."""
    return KEPT[key] if key in KEPT else metrics.value(key)


def _compared(metrics: LastMetrics, term: Comparison, now: datetime) -> ColumnElement[bool]:
    kind, value = field_kind(term.field), term.value
    if kind is FieldKind.TAG:
        return run_values.has_tag(str(value))
    if kind is FieldKind.STATE:
        return _T.state == value
    if kind is FieldKind.TIME:
        return _timed(TIMES[term.field], term.operator, value, now)
    if kind is FieldKind.DURATION:
        return _ordered(duration(metrics.dialect, now), term.operator, value)
    if kind is FieldKind.NUMBER:
        return _ordered(cast(NUMBERS[term.field], Float), term.operator, value)
    if kind is FieldKind.METRIC:
        return _ordered(metric(metrics, term.field), term.operator, value)
    return _of_spec(term.field, term.operator, value)


def _of_spec(key: str, operator: Operator, value: Value) -> ColumnElement[bool]:
    if value is None:
        return not_(run_values.has_value(key))
    if isinstance(value, bool):
        return run_values.has_value(key, run_values.spec_text == ("true" if value else "false"))
    if isinstance(value, str):
        return run_values.has_value(key, run_values.spec_text == value.casefold())
    return run_values.has_value(key, _ordered(run_values.spec_number, operator, value))


def _ordered(found: Any, operator: Operator, value: Value) -> ColumnElement[bool]:
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
