"""Rows of a run's stream: append in the writing transaction, read after a place."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Select, TextClause, bindparam, insert, select

from horizon_app.contracts.events import Event
from horizon_app.store.database import Transaction
from horizon_app.store.sql_functions import part_of
from horizon_app.store.tables import TROUBLES, EventTable

_T = EventTable
_LEVELS = ("debug", "info", "warning", "error")
SCAN_LINES = 20_000
"""Log lines looked at for one answer: some hundredths of a second."""
_FRAME = (_T.seq, _T.time, _T.type, _T.level, _T.message, _T.body)

# Built once: it is carried out ten times a second for a run that is looked at, and to build it takes longer.
_AFTER = (
    select(*_FRAME)
    .where(_T.run_id == bindparam("run"), _T.seq > bindparam("place"))
    .order_by(_T.seq)
    .limit(bindparam("most"))
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEvent:
    """An event with its place in the stream and, where it came from the worker, its line in the journal."""

    seq: int
    journal_seq: int | None
    event: Event


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFilter:
    """Which log lines: behind or before a place of the stream, that hold a text, of at least a level."""

    after: int | None = None
    before: int | None = None
    text: str | None = None
    level: str | None = None


def append_events(tx: Transaction, run_id: str, events: Sequence[NewEvent]) -> None:
    """Append; the database refuses a `seq` or a journal line that is there already."""
    if events:
        tx.execute(insert(_T), [_row(run_id, new) for new in events])


def _row(run_id: str, new: NewEvent) -> dict[str, Any]:
    body = new.event.model_dump(mode="json", exclude={"time", "type"})
    return {
        "run_id": run_id,
        "seq": new.seq,
        "journal_seq": new.journal_seq,
        "time": new.event.time,
        "type": new.event.type,
        "level": body.pop("level", None),
        "message": body.pop("message", None),
        "body": body,
    }


def events_after(
    tx: Transaction, run_id: str, after: int, *, limit: int, types: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Up to `limit` text frames that follow `after`, in order."""
    query = _AFTER if types is None else _AFTER.where(_T.type.in_(types))
    return [_frame(row) for row in tx.execute(query, {"run": run_id, "place": after, "most": limit})]


def facts_saying(tx: Transaction, run_id: str, beginning: str, *, limit: int) -> list[dict[str, Any]]:
    """The last `limit` facts whose message begins with a text, in order; others, which may be large, are not read."""
    saying = _T.message.startswith(beginning, autoescape=True)
    query = select(_T).where(_T.run_id == run_id, _T.type == "event", saying).order_by(_T.seq.desc()).limit(limit)
    return _frames(tx, query)[::-1]


def event_at(tx: Transaction, run_id: str, seq: int) -> dict[str, Any] | None:
    """One text frame."""
    found = _frames(tx, select(_T).where(_T.run_id == run_id, _T.seq == seq))
    return found[0] if found else None


class StoredLine(NamedTuple):
    """One log line."""

    seq: int
    time: datetime
    level: Literal["debug", "info", "warning", "error"]
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPage:
    """Log lines in order, and the place from which to go on; None where there is nothing further to look at."""

    lines: list[StoredLine]
    scanned_to: int | None


def log_lines(tx: Transaction, run_id: str, which: LogFilter, *, limit: int) -> LogPage:
    """Up to `limit` log lines that match: the first ones behind `after`, else the last ones before `before`.

    At most `SCAN_LINES` are looked at, however long the log is and however rare a match.
    """
    forward = which.after is not None
    order = _T.seq if forward else _T.seq.desc()
    # Nothing but log lines has a level: for warnings and errors their index alone tells where they are.
    logged = TROUBLES if which.level in ("warning", "error") else _T.type == "log"
    within: list[ColumnElement[bool] | TextClause] = [_T.run_id == run_id, logged]
    within += [_T.seq > which.after] if which.after is not None else []
    within += [_T.seq < which.before] if which.before is not None else []
    end = tx.execute(select(_T.seq).where(*within).order_by(order).offset(SCAN_LINES - 1).limit(1)).scalar()
    if end is not None:
        within.append(_T.seq <= end if forward else _T.seq >= end)
    within += [part_of(tx.dialect.name, _T.message, which.text)] if which.text else []
    within += [_T.level.in_(_LEVELS[_LEVELS.index(which.level) :])] if which.level is not None else []
    columns = (_T.seq, _T.time, _T.level, _T.message)
    rows = tx.execute(select(*columns).where(*within).order_by(order).limit(limit))
    found = [StoredLine(*row) for row in rows]
    if len(found) == limit:
        end = found[-1].seq
    return LogPage(lines=found if forward else found[::-1], scanned_to=end)


def _frames(tx: Transaction, query: Select[Any]) -> list[dict[str, Any]]:
    return [_frame(row) for row in tx.execute(query.with_only_columns(*_FRAME))]


def _frame(row: Any) -> dict[str, Any]:
    frame: dict[str, Any] = {"seq": row.seq, "time": utc_text(row.time), "type": row.type, **row.body}
    if row.level is not None:
        frame["level"] = row.level
    if row.message is not None:
        frame["message"] = row.message
    return frame


def utc_text(moment: datetime) -> str:
    """ISO 8601 in UTC with a Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
