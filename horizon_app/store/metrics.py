"""Rows of metrics, one value a key and step; and the series that readers ask for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from sqlalchemy import BigInteger, bindparam, case, delete, exists, func, select, true

from horizon_app.contracts.events import MetricsRecorded
from horizon_app.store.database import Transaction
from horizon_app.store.downsample import Line, Points, bucket_width, first_of_each, thin
from horizon_app.store.metric_chunks import (
    CHUNK_STEPS,
    FINE_STEPS,
    POINT_BYTES,
    Metrics,
    pack_chunks,
    unpack_steps_behind,
)
from horizon_app.store.tables import MetricChunkTable, MetricTable

_T, _C = MetricTable, MetricChunkTable
Flag = Literal["nan", "inf", "-inf"]
_ANY_STEP = (0, 2**63 - 1)
_POINTS_A_READ = 1 << 20
"""At most so many points of several metrics are in memory at once: 26 MB of them."""
_RUN: Any = cast(Any, bindparam)("run")
_UPSERT = (
    "INSERT INTO metrics (run_id, key, step, value, nonfinite) VALUES (?, ?, ?, ?, ?) ON CONFLICT (run_id, key, step) "
    "DO UPDATE SET value = excluded.value, nonfinite = excluded.nonfinite"
)
_UPSERTS = {"sqlite": _UPSERT, "postgresql": _UPSERT.replace("?", "%s")}
"""In the driver's words: to look at the values of thousands of points one by one takes longer than to store them."""


def _each_key() -> Any:
    """The metrics of a run: one look into an index a key, where `distinct` would read every row."""
    first = select(func.min(_T.key).label("key")).where(_T.run_id == _RUN).cte("keys", recursive=True)
    following = select(func.min(_T.key)).where(_T.run_id == _RUN, _T.key > first.c.key).scalar_subquery()
    return first.union_all(select(following).where(first.c.key.is_not(None)))


def _packed_until_query() -> Any:
    """Each metric of a run with its last chunk."""
    keys = _each_key()
    newest = select(func.max(_C.chunk)).where(_C.run_id == _RUN, _C.key == keys.c.key).scalar_subquery()
    return select(keys.c.key, newest.label("chunk")).where(keys.c.key.is_not(None))


def _extents_query() -> Any:
    """Each with its first and last step between two steps, and whether there are more than `most` there."""
    found = _packed_until_query().cte("found")
    first, last = bindparam("first", type_=BigInteger), bindparam("last", type_=BigInteger)
    within = (_T.run_id == _RUN, _T.key == found.c.key, _T.step.between(first, last))
    # Where some chunks hold so many by their size, no points have to be counted one by one.
    inside = _C.chunk.between(bindparam("first_chunk"), bindparam("last_chunk"))
    some = select(_C.points).where(_C.run_id == _RUN, _C.key == found.c.key, inside).limit(bindparam("some")).subquery()
    packed = select(func.sum(func.length(some.c.points)) / POINT_BYTES).scalar_subquery()
    most = bindparam("most", type_=BigInteger)
    behind = select(_T.step).where(*within).order_by(_T.step).offset(most).limit(1)
    return select(
        found.c.key, found.c.chunk,
        select(func.min(_T.step)).where(*within).scalar_subquery(),
        select(func.max(_T.step)).where(*within).scalar_subquery(),
        case((packed > most, true()), else_=exists(behind)),
    ).where(found.c.key.in_(bindparam("metrics", expanding=True)))  # fmt: skip


# Built once: to build a statement takes longer than to carry it out.
_PACKED_UNTIL = _packed_until_query()
_EXTENTS = _extents_query()


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSeries:
    """One metric: its points, or the finite ones thinned; and the steps at which it was not finite.

    A thinned series names of each bucket the first step that was not finite.
    """

    steps: list[int]
    values: list[float | None]
    nonfinite: list[tuple[int, Flag]]

    @property
    def points(self) -> list[tuple[int, float | None]]:
        """Step and value of each."""
        return list(zip(self.steps, self.values, strict=True))


def record_metrics(tx: Transaction, run_id: str, events: Sequence[MetricsRecorded]) -> None:
    """Set the values of these steps; a step that was recorded before (in an earlier attempt) is replaced."""
    rows = {
        (key, event.step): (run_id, key, event.step, value, event.nonfinite.get(key))
        for event in events
        for key, value in event.values.items()
    }
    if not rows:
        return
    tx.exec_driver_sql(_UPSERTS[tx.dialect.name], list(rows.values()))
    _pack(tx, run_id, list(rows))


def _pack(tx: Transaction, run_id: str, recorded: Sequence[tuple[str, int]]) -> None:
    """Bring the chunks up to date with points that were recorded: those left behind, and those written again."""
    touched: dict[str, set[int]] = {}
    for key, step in recorded:
        touched.setdefault(key, set()).add(step // CHUNK_STEPS)
    for key, until in _packed_until(tx, run_id).items():
        chunks = touched.get(key)
        if chunks is None:
            continue
        end = until // CHUNK_STEPS
        for chunk in sorted(chunks):
            if chunk < end:
                pack_chunks(tx, run_id, key, first=chunk, last=chunk)
        if max(chunks) > end:
            pack_chunks(tx, run_id, key, first=end, last=max(chunks) - 1)


def _packed_until(tx: Transaction, run_id: str) -> dict[str, int]:
    """Each metric of a run, and the step behind its last chunk."""
    found: Any = tx.execute(_PACKED_UNTIL, {"run": run_id})
    return {key: _end_of(chunk) for key, chunk in found}


def _end_of(chunk: int | None) -> int:
    return 0 if chunk is None else (chunk + 1) * CHUNK_STEPS


def forget_metrics(tx: Transaction, run_id: str, *, after: int) -> None:
    """Remove the values of all steps behind `after`."""
    tx.execute(delete(_T).where(_T.run_id == run_id, _T.step > after))
    unpack_steps_behind(tx, run_id, after)


def metric_keys(tx: Transaction, run_id: str) -> list[str]:
    """Names of the metrics that a run has."""
    return sorted(_packed_until(tx, run_id))


def series(
    tx: Transaction, run_id: str, keys: Sequence[str], *, first: int | None, last: int | None, max_points: int
) -> Mapping[str, StoredSeries]:
    """Each of these metrics between two steps (both included): all points, or thinned to `max_points` where more."""
    begin, end = (_ANY_STEP[0] if first is None else first), (_ANY_STEP[1] if last is None else last)
    asked = {
        "run": run_id, "metrics": keys, "first": begin, "last": end, "most": max_points,
        "first_chunk": -(-begin // CHUNK_STEPS), "last_chunk": (end + 1) // CHUNK_STEPS - 1,
        "some": max_points // CHUNK_STEPS + 2,
    }  # fmt: skip
    alike: dict[_Extent, list[str]] = {}
    for key, chunk, low, high, too_many in cast(Any, tx.execute(_EXTENTS, asked)):
        if low is not None:
            alike.setdefault(_Extent(_end_of(chunk), low, high, bool(too_many)), []).append(key)
    found = dict.fromkeys(keys, StoredSeries(steps=[], values=[], nonfinite=[]))
    for extent, those in alike.items():
        several = max(1, _POINTS_A_READ // (extent.high - extent.low + 1))
        for place in range(0, len(those), several):
            some = those[place : place + several]
            metrics = Metrics(tx=tx, run_id=run_id, keys=some, packed_until=extent.packed_until)
            found |= _series(metrics, extent, begin, max_points)
    return found


class _Extent(NamedTuple):
    """What metrics have to have in common to be read in one go, and most metrics of a run have."""

    packed_until: int
    low: int
    high: int
    too_many: bool


def _series(metrics: Metrics, extent: _Extent, first: int, max_points: int) -> dict[str, StoredSeries]:
    width = bucket_width(extent.low, extent.high, max_points)
    if not extent.too_many or width < FINE_STEPS:
        found = metrics.points(extent.low, extent.high)
        return {key: series_of(points, max_points) for key, points in found.items()}
    line = Line.of(metrics.keys, extent.low, extent.high, width)
    # From where it was asked for, so that a chunk that begins before the first point counts as a whole one.
    extremes, odd = metrics.extremes(first, extent.high, line)
    points, odd = line.take_up(extremes.widen(width).points()), line.take_up(first_of_each(odd, width))
    return {key: _answer(points[key].steps.tolist(), points[key].values.tolist(), odd[key]) for key in metrics.keys}


def series_of(points: Points, max_points: int) -> StoredSeries:
    """The series of these points: all of them, or thinned to `max_points` where more."""
    finite = np.isfinite(points.values)
    if len(points.steps) <= max_points:
        return _answer(points.steps.tolist(), _or_null(points), points.where(~finite))
    width = bucket_width(int(points.steps[0]), int(points.steps[-1]), max_points)
    thinned = thin(points.where(finite), width)
    return _answer(thinned.steps.tolist(), thinned.values.tolist(), first_of_each(points.where(~finite), width))


def _or_null(points: Points) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in cast(list[float], points.values.tolist())]


def _answer(steps: list[int], values: list[float | None], odd: Points) -> StoredSeries:
    flags: list[Flag] = ["nan" if np.isnan(value) else "inf" if value > 0 else "-inf" for value in odd.values]
    return StoredSeries(steps=steps, values=values, nonfinite=list(zip(odd.steps.tolist(), flags, strict=True)))
