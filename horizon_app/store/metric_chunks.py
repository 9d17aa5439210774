"""Packed copies of metrics, in chunks of `CHUNK_STEPS` optimizer steps: what makes a million points quick to read.

The rows of `metrics` are the truth, one a point, which the database keeps to one a step. They cost 60 bytes and some
microseconds each, too much to look at a million of them. So once a run has left a chunk behind, its points are copied
into one row of `metric_chunks`, in ten bytes each, and the extremes of every `FINE_STEPS` steps into one row of
`metric_extremes`, which lie close together. A live run writes a chunk once in 512 steps and reads it back from 512
rows, so that recording hardly notices; a reader takes whole chunks and the last few hundred rows.

What holds at the end of every transaction: each point before the end of a metric's last chunk is in a chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from sqlalchemy import ColumnElement, bindparam, delete, insert, select

from horizon_app.store.database import Transaction
from horizon_app.store.downsample import Extremes, Points, Steps, first_of_each
from horizon_app.store.tables import MetricChunkTable, MetricExtremesTable, MetricTable

CHUNK_STEPS = 512
FINE_STEPS = 32
_NOTHING = Points(steps=np.empty(0, np.int64), values=np.empty(0))
_NOT_FINITE = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_POINT = np.dtype([("at", "<u2"), ("value", "<f8")])
_FINE = np.dtype([
    ("low_at", "<u2"), ("high_at", "<u2"), ("last_at", "<u2"), ("low", "<f8"), ("high", "<f8"), ("last", "<f8"),
])  # fmt: skip
"""`at`: steps behind the beginning of the chunk."""
_M, _C, _E = MetricTable, MetricChunkTable, MetricExtremesTable

# Built once: to build a statement takes longer than to carry it out.
_ROWS = (
    select(_M.key, _M.step, _M.value, _M.nonfinite)
    .where(_M.run_id == bindparam("run"), _M.key.in_(bindparam("metrics", expanding=True)))
    .where(_M.step.between(bindparam("first"), bindparam("last")))
    .order_by(_M.key, _M.step)
)


def _these(table: type[MetricChunkTable | MetricExtremesTable]) -> tuple[ColumnElement[bool], ...]:
    chunks = table.chunk.between(bindparam("first"), bindparam("last"))
    return table.run_id == bindparam("run"), table.key.in_(bindparam("metrics", expanding=True)), chunks


_POINTS_OF = select(_C.key, _C.chunk, _C.points).where(*_these(_C)).order_by(_C.key, _C.chunk)
_EXTREMES_OF = select(_E.key, _E.chunk, _E.fine, _E.odd).where(*_these(_E)).order_by(_E.key, _E.chunk)
_DROPS = tuple(delete(table).where(*_these(table)) for table in (_C, _E))
_INSERT_POINTS, _INSERT_EXTREMES = insert(_C), insert(_E)


def pack(chunk: int, points: Points) -> bytes:
    """The points of one chunk."""
    return _packed(points, chunk * CHUNK_STEPS)


def pack_extremes(chunk: int, points: Points) -> tuple[bytes, bytes]:
    """The extremes of the finite points of one chunk, and the first one that is not finite of each `FINE_STEPS`."""
    begin = chunk * CHUNK_STEPS
    finite = np.isfinite(points.values)
    extremes = Extremes.of(points.where(finite)).widen(FINE_STEPS)
    fine = np.empty(len(extremes.last), _FINE)
    for name in ("low", "high", "last"):
        fine[f"{name}_at"] = getattr(extremes, f"{name}_at") - begin
        fine[name] = getattr(extremes, name)
    return fine.tobytes(), _packed(first_of_each(points.where(~finite), FINE_STEPS), begin)


def pack_chunks(tx: Transaction, run_id: str, key: str, *, first: int, last: int) -> None:
    """Make the chunks `first` to `last` of one metric what its rows say now."""
    for drop in _DROPS:
        tx.execute(drop, {"run": run_id, "metrics": [key], "first": first, "last": last})
    found = _row_points(tx, run_id, [key], first * CHUNK_STEPS, (last + 1) * CHUNK_STEPS - 1)
    points = found.get(key, _NOTHING)
    chunks: list[dict[str, Any]] = []
    extremes: list[dict[str, Any]] = []
    for chunk in cast(list[int], np.unique(points.steps // CHUNK_STEPS).tolist()):
        inside = points.between(chunk * CHUNK_STEPS, (chunk + 1) * CHUNK_STEPS - 1)
        fine, odd = pack_extremes(chunk, inside)
        chunks.append({"run_id": run_id, "key": key, "chunk": chunk, "points": pack(chunk, inside)})
        extremes.append({"run_id": run_id, "key": key, "chunk": chunk, "fine": fine, "odd": odd})
    if chunks:
        tx.execute(_INSERT_POINTS, chunks)
        tx.execute(_INSERT_EXTREMES, extremes)


def unpack_steps_behind(tx: Transaction, run_id: str, step: int) -> None:
    """Let no chunk of a run hold a point behind `step`."""
    for table in (_C, _E):
        tx.execute(delete(table).where(table.run_id == run_id, table.chunk >= (step + 1) // CHUNK_STEPS))


@dataclass(frozen=True, kw_only=True, slots=True)
class Metrics:
    """Metrics of a run that are packed as far as each other, to be read in a transaction: all of them in one go."""

    tx: Transaction
    run_id: str
    keys: Sequence[str]
    packed_until: int
    """The step behind their last chunk: from there on they are read from rows."""

    def points(self, first: int, last: int) -> dict[str, Points]:
        """All points of each from step `first` to `last`, both included."""
        parts = {key: [_NOTHING] for key in self.keys}
        if first < min(self.packed_until, last + 1):
            end = min(last, self.packed_until - 1)
            for key, blobs in self._chunks(_POINTS_OF, first // CHUNK_STEPS, end // CHUNK_STEPS).items():
                parts[key].append(_unpacked(blobs).between(first, last))
        if last >= max(self.packed_until, first):
            rows = _row_points(self.tx, self.run_id, self.keys, max(first, self.packed_until), last)
            for key, points in rows.items():
                parts[key].append(points)
        return {key: Points.join(found) for key, found in parts.items()}

    def extremes(self, first: int, last: int) -> dict[str, tuple[Extremes, Points]]:
        """What is needed of the steps from `first` to `last` to know the extremes of buckets of `FINE_STEPS` and more.

        Of each, those of the finite points, and the first one that is not finite of each `FINE_STEPS` steps.
        """
        begin = -(-first // CHUNK_STEPS)
        end = min(last + 1, self.packed_until) // CHUNK_STEPS
        if begin >= end:
            return {key: _split(points) for key, points in self.points(first, last).items()}
        heads, tails = self.points(first, begin * CHUNK_STEPS - 1), self.points(end * CHUNK_STEPS, last)
        chunks = self._chunks(_EXTREMES_OF, begin, end - 1)
        return {key: _joined(heads[key], chunks.get(key, []), tails[key]) for key in self.keys}

    def _chunks(self, query: Any, first: int, last: int) -> dict[str, list[Any]]:
        which = {"run": self.run_id, "metrics": self.keys, "first": first, "last": last}
        return _by_key(cast(Any, self.tx.execute(query, which)).cursor.fetchall())


def _row_points(tx: Transaction, run_id: str, keys: Sequence[str], first: int, last: int) -> dict[str, Points]:
    # The driver's own tuples: SQLAlchemy's rows take three times as long.
    found: Any = tx.execute(_ROWS, {"run": run_id, "metrics": keys, "first": first, "last": last})
    return {key: _points(rows) for key, rows in _by_key(found.cursor.fetchall()).items()}


def _by_key(rows: list[Any]) -> dict[str, list[Any]]:
    """What follows the key in each row, which come key by key."""
    return {key: [row[1:] for row in group] for key, group in groupby(rows, itemgetter(0))}


def _points(rows: list[tuple[int, float | None, str | None]]) -> Points:
    steps = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    values = (_NOT_FINITE[flag or "nan"] if value is None else value for _, value, flag in rows)
    return Points(steps=steps, values=np.fromiter(values, np.float64, len(rows)))


def _joined(head: Points, chunks: list[tuple[int, bytes, bytes]], tail: Points) -> tuple[Extremes, Points]:
    (first, odd_first), (last, odd_last) = _split(head), _split(tail)
    fine = _unpacked_fine([chunk[:2] for chunk in chunks])
    odd = _unpacked([(chunk, blob) for chunk, _, blob in chunks if blob])
    return Extremes.join([first, fine, last]), Points.join([odd_first, odd, odd_last])


def _split(points: Points) -> tuple[Extremes, Points]:
    finite = np.isfinite(points.values)
    return Extremes.of(points.where(finite)), points.where(~finite)


def _packed(points: Points, begin: int) -> bytes:
    rows = np.empty(len(points.steps), _POINT)
    rows["at"], rows["value"] = points.steps - begin, points.values
    return rows.tobytes()


def _unpacked(blobs: Sequence[tuple[int, bytes]]) -> Points:
    rows, begins = _rows(blobs, _POINT)
    return Points(steps=rows["at"] + begins, values=rows["value"])


def _unpacked_fine(blobs: Sequence[tuple[int, bytes]]) -> Extremes:
    rows, begins = _rows(blobs, _FINE)
    return Extremes(
        low_at=rows["low_at"] + begins, low=rows["low"], high_at=rows["high_at"] + begins, high=rows["high"],
        last_at=rows["last_at"] + begins, last=rows["last"],
    )  # fmt: skip


def _rows(blobs: Sequence[tuple[int, bytes]], kind: np.dtype[Any]) -> tuple[npt.NDArray[Any], Steps]:
    """The rows of all blobs, and for each the step at which its chunk begins."""
    sizes = [len(blob) // kind.itemsize for _, blob in blobs]
    begins = np.fromiter((chunk * CHUNK_STEPS for chunk, _ in blobs), np.int64, len(blobs))
    return np.frombuffer(b"".join(blob for _, blob in blobs), kind), np.repeat(begins, sizes)
