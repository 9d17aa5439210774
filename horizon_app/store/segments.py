"""Rows of segments, one a worker's part of a run, and of metrics that a later segment measured again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import groupby
from typing import Any

import numpy as np
from sqlalchemy import insert, literal, or_, select, update

from horizon_app.contracts.run_state import RunState
from horizon_app.store.database import Transaction
from horizon_app.store.downsample import Points
from horizon_app.store.metrics import StoredSeries, forget_metrics, series_of
from horizon_app.store.tables import MetricTable, RunTable, SegmentTable, SupersededMetricTable

_T = SegmentTable
_M = MetricTable
_S = SupersededMetricTable
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSegment:
    """One worker's part of a run; its steps are None until one is done."""

    number: int
    started_at: datetime
    ended_at: datetime | None
    first_step: int | None
    last_step: int | None
    void_after: int | None
    """What it measured behind this step was measured again."""
    state: RunState | None
    reason: str


def open_segment(tx: Transaction, run_id: str, number: int, at: datetime) -> None:
    """A worker is being started. The first begins at step 1, a later one says where."""
    first = 1 if number == 1 else None
    tx.execute(insert(_T).values(run_id=run_id, number=number, started_at=at, first_step=first, reason=""))
    tx.execute(update(RunTable).where(RunTable.id == run_id).values(segment=number))


def close_segment(tx: Transaction, run_id: str, state: RunState, reason: str, *, at: datetime, step: int) -> None:
    """The run has ended after `step`; where it ended without a worker, there is nothing to close."""
    tx.execute(
        update(_T)
        .where(_T.run_id == run_id, _T.ended_at.is_(None))
        .values(ended_at=at, state=state.value, reason=reason)
    )
    # Of a segment that died before its first step, neither is known.
    done = update(_T).where(_T.run_id == run_id, _T.ended_at == at, _T.first_step <= step)
    tx.execute(done.values(last_step=step))


def segments_of(tx: Transaction, run_id: str) -> list[StoredSegment]:
    """The segments of a run, in order."""
    columns = [getattr(_T, field.name) for field in fields(StoredSegment)]
    rows = tx.execute(select(*columns).where(_T.run_id == run_id).order_by(_T.number)).mappings()
    return [_segment(row) for row in rows]


def _segment(row: Mapping[Any, Any]) -> StoredSegment:
    values: dict[str, Any] = {field.name: row[field.name] for field in fields(StoredSegment)}
    values["state"] = None if values["state"] is None else RunState(values["state"])
    return StoredSegment(**values)


def go_back(tx: Transaction, run_id: str, *, step: int) -> None:
    """The newest segment goes on behind `step`: what earlier ones measured behind it moves out of the history."""
    *earlier, current = [(part.number, part.first_step) for part in segments_of(tx, run_id)] or [(0, None)]
    begins_at = update(_T).where(_T.run_id == run_id, _T.number == current[0])
    tx.execute(begins_at.values(first_step=step + 1))
    for number, first_step in reversed(earlier):
        if first_step is not None:
            _supersede(tx, run_id, number, max(first_step, step + 1), void_after=step)
    _supersede(tx, run_id, 0, step + 1, void_after=step)  # what belongs to no segment, if anything does


def _supersede(tx: Transaction, run_id: str, number: int, first_step: int, *, void_after: int) -> None:
    columns = ("run_id", "key", "segment", "step", "value", "nonfinite")
    values = [literal(number) if name == "segment" else getattr(_M, name) for name in columns]
    tail = select(*values).where(_M.run_id == run_id, _M.step >= first_step)
    if tx.execute(tail.limit(1)).first() is None:
        return
    tx.execute(insert(_S).from_select(columns, tail))
    forget_metrics(tx, run_id, after=first_step - 1)
    segment = update(_T).where(_T.run_id == run_id, _T.number == number)
    tx.execute(segment.where(or_(_T.void_after.is_(None), _T.void_after > void_after)).values(void_after=void_after))


def superseded_series(
    tx: Transaction, run_id: str, keys: Sequence[str] | None, *, first: int | None, last: int | None, max_points: int
) -> dict[int, dict[str, StoredSeries]]:
    """Segment -> each of these metrics (of all, where None) between two steps, as it was before it was done again."""
    found: dict[int, dict[str, StoredSeries]] = {}
    within = [_S.run_id == run_id, *([] if first is None else [_S.step >= first])]
    within += [] if last is None else [_S.step <= last]
    within += [] if keys is None else [_S.key.in_(keys)]
    query = select(_S.segment, _S.key, _S.step, _S.value, _S.nonfinite).where(*within)
    rows = tx.execute(query.order_by(_S.segment, _S.key, _S.step))
    for (segment, key), group in groupby(rows, lambda row: (row.segment, row.key)):
        found.setdefault(segment, {})[key] = series_of(_points([*group]), max_points)
    return found


def _points(rows: Sequence[Any]) -> Points:
    values = [_NOT_FINITE[row.nonfinite or "nan"] if row.value is None else row.value for row in rows]
    return Points(steps=np.array([row.step for row in rows], np.int64), values=np.array(values, np.float64))
