"""The history in pages: filters, sorting and a cursor that stays right while runs come and go."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Text, and_, cast, func, or_, select

from horizon_app.contracts.run_state import RunState
from horizon_app.store.database import Transaction
from horizon_app.store.runs import RUN_COLUMNS, StoredRun, stored_run
from horizon_app.store.tables import RunTable

_T = RunTable
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
_SORTS: dict[str, tuple[Any, Any]] = {
    "created_at": (_T.created_at, _LONG_AGO),
    "started_at": (_T.started_at, _LONG_AGO),
    "ended_at": (_T.ended_at, _LONG_AGO),
    "name": (_T.name, ""),
    "state": (_T.state, ""),
    "model": (_T.model_name, ""),
    "step": (_T.step, -1),
    "loss": (_T.loss, -1.0e308),
}
"""Sort key -> column, and what stands in for a missing value (which sorts lowest)."""

SORT_KEYS = tuple(_SORTS)


class BadCursor(ValueError):
    """The cursor was not made by this list, or for another sorting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFilter:
    """Which runs, in which order."""

    states: tuple[RunState, ...] = ()
    tag: str | None = None
    text: str | None = None
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
    column, missing = _SORTS[which.sort]
    key = func.coalesce(column, missing)
    query = select(*RUN_COLUMNS, key.label("sort_key")).where(*_conditions(which))
    if which.states:
        query = query.where(_T.state.in_([state.value for state in which.states]))
    if cursor is not None:
        query = query.where(_after(key, _decode(cursor, which.sort, missing), which.descending))
    order = (key.desc(), _T.id.desc()) if which.descending else (key, _T.id)
    rows = tx.execute(query.order_by(*order).limit(limit + 1)).mappings().all()
    runs = [stored_run(row) for row in rows[:limit]]
    last = rows[limit - 1] if len(rows) > limit else None
    counts = _counts(tx, which)
    total = sum(count for state, count in counts.items() if not which.states or state in which.states)
    next_cursor = None if last is None else _encode(which.sort, last["sort_key"], last["id"])
    return StoredPage(runs=runs, next_cursor=next_cursor, total=total, counts=counts)


def _conditions(which: RunFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if which.archived is not None:
        found.append(_T.archived_at.is_not(None) if which.archived else _T.archived_at.is_(None))
    if which.tag is not None:
        # Tags are stored as a JSON list of strings: a whole tag stands there in quotes.
        found.append(cast(_T.tags, Text).contains(json.dumps(which.tag, ensure_ascii=False), autoescape=True))
    if which.text:
        columns = (_T.name, _T.notes, cast(_T.tags, Text), _T.model_name, _T.id)
        found.append(or_(*(column.icontains(which.text, autoescape=True) for column in columns)))
    return found


def _counts(tx: Transaction, which: RunFilter) -> dict[RunState, int]:
    rows = tx.execute(select(_T.state, func.count()).where(*_conditions(which)).group_by(_T.state))
    found = {RunState(state): count for state, count in rows}
    return {state: found.get(state, 0) for state in RunState}


def _after(key: Any, last: tuple[Any, str], descending: bool) -> ColumnElement[bool]:
    value, run_id = last
    if descending:
        return or_(key < value, and_(key == value, _T.id < run_id))
    return or_(key > value, and_(key == value, _T.id > run_id))


def _encode(sort: str, value: Any, run_id: str) -> str:
    shown = value.isoformat() if isinstance(value, datetime) else value
    return base64.urlsafe_b64encode(json.dumps([sort, shown, run_id]).encode()).decode().rstrip("=")


def _decode(cursor: str, sort: str, like: Any) -> tuple[Any, str]:
    try:
        of_sort, value, run_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(like, datetime):
            value = datetime.fromisoformat(value)
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadCursor("the cursor is not one that this list gave out") from error
    if of_sort != sort or not isinstance(run_id, str) or not isinstance(value, type(like) | int):
        raise BadCursor(f"the cursor belongs to another sorting than {sort}")
    return value, run_id
