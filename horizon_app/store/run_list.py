"""The history in pages: filters, sorting and a cursor that stays right while runs come and go."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import CTE, ColumnElement, String, cast, func, literal, literal_column, select, true, tuple_

from horizon_app.contracts.ids import RunId
from horizon_app.contracts.run_filter import METRIC_KEY, Filter
from horizon_app.contracts.run_state import RunState
from horizon_app.store import filter_sql, run_values
from horizon_app.store.database import Transaction
from horizon_app.store.run_values import LastMetrics
from horizon_app.store.runs import StoredRun, get_runs
from horizon_app.store.tables import RunTable

_T = RunTable
_LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
_LOWEST = -1.0e308
_SORTS: dict[str, tuple[Any, Any]] = {
    "created_at": (_T.created_at, _LONG_AGO),
    "started_at": (func.coalesce(_T.started_at, _LONG_AGO), _LONG_AGO),
    "ended_at": (func.coalesce(_T.ended_at, _LONG_AGO), _LONG_AGO),
    "name": (_T.name, ""),
    "state": (_T.state, ""),
    "model": (_T.model_name, ""),
    "step": (_T.step, -1),
    "parameters": (func.coalesce(_T.parameters, -1), -1),
    "loss": (func.coalesce(_T.loss, _LOWEST), _LOWEST),
}
"""Sort key -> what is sorted by, and a value of its kind; where a run has none it sorts lowest."""

SORT_KEYS = (*_SORTS, "duration")
"""Beside these, the key of any metric."""


def is_sort_key(key: str) -> bool:
    """Whether runs can be sorted by this."""
    return key in SORT_KEYS or METRIC_KEY.fullmatch(key) is not None


_NOT_OURS = "the cursor is not one that this list gave out"


class BadCursor(ValueError):
    """The cursor was not made by this list, or for another sorting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFilter:
    """Which runs, in which order."""

    states: tuple[RunState, ...] = ()
    tag: str | None = None
    matching: Filter | None = None
    archived: bool | None = False
    """None: whether archived or not."""
    sort: str = "created_at"
    descending: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPage:
    """A page of the history."""

    runs: list[StoredRun]
    next_cursor: str | None
    total: int
    counts: dict[RunState, int]


def list_runs(tx: Transaction, which: RunFilter, *, limit: int, cursor: str | None = None) -> StoredPage:
    """One page of the runs that match. Raises BadCursor."""
    after = None if cursor is None else _decode(cursor, which.sort)
    now = (after and after.asked_at) or datetime.now(UTC)
    metrics = LastMetrics(tx.dialect.name)
    key, like = _sorting(metrics, which.sort, now)
    found = _found(metrics, which, key, now)
    place, run_id = found.c.sort_key, found.c.id
    page = select(run_id, place).order_by(*_order(place, run_id, which)).limit(limit + 1)
    if which.states:
        page = page.where(found.c.state.in_([state.value for state in which.states]))
    if after is not None:
        page = page.where(_behind(place, run_id, after.value_like(like), after.run_id, descending=which.descending))
    counts, places = _read(tx, found, page.cte("page"), which)
    last = places[limit - 1] if len(places) > limit else None
    runs = {run.id: run for run in get_runs(tx, [run_id for run_id, _ in places[:limit]])}
    total = sum(count for state, count in counts.items() if not which.states or state in which.states)
    # Where the moment decides nothing it is left out: a page in which nothing is new is then the same to the letter.
    asked_at = now if which.sort == "duration" or which.matching is not None else None
    next_cursor = None if last is None else _encode(which.sort, last[1], last[0], asked_at)
    ordered = [runs[run_id] for run_id, _ in places[:limit]]
    return StoredPage(runs=ordered, next_cursor=next_cursor, total=total, counts=counts)


def _found(metrics: LastMetrics, which: RunFilter, key: Any, now: datetime) -> CTE:
    """The runs that match, in any state, by what pages and counts need of them.

    Each walks along an index of its own, but what takes long to find is found once for both.
    """
    matching = _conditions(metrics, which, now)  # before the join: what they ask for is joined
    runs = select(_T.id, _T.state, key.label("sort_key")).select_from(_T)
    found = metrics.join(runs).where(*matching).cte("found")
    once = bool(metrics) or (which.matching is not None and filter_sql.reads_texts(which.matching))
    return found.prefix_with("MATERIALIZED" if once else "NOT MATERIALIZED")


def _read(
    tx: Transaction, found: CTE, page: CTE, which: RunFilter
) -> tuple[dict[RunState, int], list[tuple[RunId, Any]]]:
    """How many runs were found in each state; and the page: each run and what it is sorted by, in order.

    This takes nothing but indexes and short columns: of the rows, which are long, only those of the page are read.
    """
    each = select(found.c.state, func.count().label("runs")).group_by(found.c.state).subquery()
    line = each.c.state + literal_column("'='") + cast(each.c.runs, String)
    counts = select(func.aggregate_strings(line, " ").label("counts")).subquery()
    query = select(page.c.id, page.c.sort_key, counts.c.counts).select_from(counts.outerjoin(page, true()))
    rows = tx.execute(query.order_by(*_order(page.c.sort_key, page.c.id, which))).all()
    text: str = rows[0].counts or ""
    number = {state: int(count) for state, _, count in (one.partition("=") for one in text.split())}
    counted = {state: number.get(state.value, 0) for state in RunState}
    return counted, [(RunId(run_id), key) for run_id, key, _ in rows if run_id is not None]


def _order(key: Any, run_id: Any, which: RunFilter) -> tuple[Any, Any]:
    return (key.desc(), run_id.desc()) if which.descending else (key, run_id)


def _sorting(metrics: LastMetrics, sort: str, now: datetime) -> tuple[Any, Any]:
    if sort in _SORTS:
        return _SORTS[sort]
    found = filter_sql.duration(metrics.dialect, now) if sort == "duration" else filter_sql.metric(metrics, sort)
    return func.coalesce(found, _LOWEST), _LOWEST


def _conditions(metrics: LastMetrics, which: RunFilter, now: datetime) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if which.archived is not None:
        found.append(_T.archived_at.is_not(None) if which.archived else _T.archived_at.is_(None))
    if which.tag is not None:
        found.append(run_values.has_tag(which.tag))
    if which.matching is not None:
        found.append(filter_sql.condition(which.matching, metrics=metrics, now=now))
    return found


def _behind(key: Any, run_id: Any, value: Any, last_id: str, *, descending: bool) -> ColumnElement[bool]:
    place, last = tuple_(key, run_id), tuple_(literal(value, key.type), literal(last_id))
    return place < last if descending else place > last


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a page ended. Running times, and times ago, are those of the moment the first page was asked for."""

    sort: str
    value: Any
    run_id: str
    asked_at: datetime | None

    def value_like(self, like: Any) -> Any:
        """The sort key's value there. Raises BadCursor where it is of another kind than the key's."""
        try:
            value = datetime.fromisoformat(self.value) if isinstance(like, datetime) else self.value
        except (ValueError, TypeError) as error:
            raise BadCursor(_NOT_OURS) from error
        fits = isinstance(value, int | float) if isinstance(like, int | float) else isinstance(value, type(like))
        if not fits or isinstance(value, bool) or (isinstance(value, str) and "\0" in value):
            raise BadCursor(_NOT_OURS)
        if isinstance(value, datetime) and value.tzinfo is None:
            raise BadCursor(_NOT_OURS)
        return value


def _encode(sort: str, value: Any, run_id: str, asked_at: datetime | None) -> str:
    shown = value.isoformat() if isinstance(value, datetime) else value
    place = json.dumps([sort, shown, run_id, asked_at and asked_at.isoformat()])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _decode(cursor: str, sort: str) -> _Place:
    try:
        of_sort, value, run_id, asked_at = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        moment = None if asked_at is None else datetime.fromisoformat(asked_at)
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadCursor(_NOT_OURS) from error
    if of_sort != sort:
        raise BadCursor(f"the cursor belongs to another sorting than {sort}")
    if not isinstance(run_id, str) or "\0" in run_id or (moment and moment.tzinfo is None):
        raise BadCursor(_NOT_OURS)
    return _Place(sort=sort, value=value, run_id=run_id, asked_at=moment)
