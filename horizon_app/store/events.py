"""Rows of a run's stream: append in the writing transaction, read after a place."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, case, insert, select

from horizon_app.contracts.events import Event
from horizon_app.store.database import Transaction
from horizon_app.store.tables import EventTable

_T = EventTable
_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEvent:
    """An event with its place in the stream and, where it came from the worker, its line in the journal."""

    seq: int
    journal_seq: int | None
    event: Event


def append_events(tx: Transaction, run_id: str, events: Sequence[NewEvent]) -> None:
    """Append; the database refuses a `seq` or a journal line that is there already."""
    if events:
        tx.execute(insert(_T), [_row(run_id, new) for new in events])


def _row(run_id: str, new: NewEvent) -> dict[str, Any]:
    body = new.event.model_dump(mode="json", exclude={"time", "type", "level", "message"})
    return {
        "run_id": run_id,
        "seq": new.seq,
        "journal_seq": new.journal_seq,
        "time": new.event.time,
        "type": new.event.type,
        "level": getattr(new.event, "level", None),
        "message": getattr(new.event, "message", None),
        "body": body,
    }


def events_after(
    tx: Transaction, run_id: str, after: int, *, limit: int, types: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Up to `limit` text frames that follow `after`, in order."""
    query = select(_T).where(_T.run_id == run_id, _T.seq > after).order_by(_T.seq).limit(limit)
    if types is not None:
        query = query.where(_T.type.in_(types))
    return _frames(tx, query)


def event_at(tx: Transaction, run_id: str, seq: int) -> dict[str, Any] | None:
    """One text frame."""
    found = _frames(tx, select(_T).where(_T.run_id == run_id, _T.seq == seq))
    return found[0] if found else None


def log_lines(
    tx: Transaction, run_id: str, *, after: int | None, text: str | None, level: str | None, limit: int
) -> list[dict[str, Any]]:
    """Log lines of at least a level that hold a text: those after a place, or the newest where none is named."""
    query = select(_T).where(_T.run_id == run_id, _T.type == "log")
    if level is not None:
        query = query.where(_T.level.in_(_LEVELS[_LEVELS.index(level) :]))
    if text:
        query = query.where(_T.message.icontains(text, autoescape=True))
    if after is not None:
        return _frames(tx, query.where(_T.seq > after).order_by(_T.seq).limit(limit))
    return _frames(tx, query.order_by(_T.seq.desc()).limit(limit))[::-1]


def last_log_lines(tx: Transaction, run_id: str, count: int) -> list[str]:
    """The newest log messages, errors before the rest."""
    rank = case((_T.level == "error", 0), else_=1)
    query = select(_T).where(_T.run_id == run_id, _T.type == "log").order_by(rank, _T.seq.desc()).limit(count)
    return [frame["message"] for frame in _frames(tx, query)][::-1]


def _frames(tx: Transaction, query: Select[Any]) -> list[dict[str, Any]]:
    return [_frame(row) for row in tx.execute(query.with_only_columns(
        _T.seq, _T.time, _T.type, _T.level, _T.message, _T.body
    ))]  # fmt: skip


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
