"""Packed copies of metrics, in chunks of `CHUNK_STEPS` optimizer steps: what makes a million points quick to read.

The rows of `metrics` are the truth, one a point, which the database keeps to one a step. They cost 60 bytes and some
microseconds each, too much to look at a million of them. So once a run has left a chunk behind, its points are copied
into one row of `metric_chunks`, in ten bytes each, and the extremes of every `FINE_STEPS` steps into one row of
`metric_extremes`, which lie close together. A live run writes a chunk once in 512 steps and reads it back from 512
rows, so that recording hardly notices; a reader takes whole chunks and the last few hundred rows.

What holds at the end of every transaction: each point before the end of a metric's last chunk is in a chunk.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from sqlalchemy import ColumnElement, bindparam, delete, insert, select

from horizon_app.store.database import Transaction
from horizon_app.store.downsample import Extremes, Line, Points, Steps, first_of_each
from horizon_app.store.tables import MetricChunkTable, MetricExtremesTable, MetricTable

CHUNK_STEPS = 512
FINE_STEPS = 32
_NOTHING = Points(steps=np.empty(0, np.int64), values=np.empty(0))
_NOT_FINITE = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_POINT = np.dtype([("at", "<u2"), ("value", "<f8")])
POINT_BYTES = _POINT.itemsize
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
            rows = self._rows(_POINTS_OF, first // CHUNK_STEPS, end // CHUNK_STEPS)
            for key, chunks in groupby(rows, itemgetter(0)):
                parts[key].append(_unpacked(chunks).between(first, last))
        if last >= max(self.packed_until, first):
            found = _row_points(self.tx, self.run_id, self.keys, max(first, self.packed_until), last)
            for key, points in found.items():
                parts[key].append(points)
        return {key: Points.join(joined) for key, joined in parts.items()}

    def extremes(self, first: int, last: int, line: Line) -> tuple[Extremes, Points]:
        """What is needed of the steps from `first` to `last` to know the extremes of buckets of `FINE_STEPS` and more.

        On a line, those of the finite points, and the first one that is not finite of each `FINE_STEPS` steps.
        """
        begin = -(-first // CHUNK_STEPS)
        end = min(last + 1, self.packed_until) // CHUNK_STEPS
        if begin >= end:
            return _split(line.lay(self.points(first, last)))
        head, tail = self.points(first, begin * CHUNK_STEPS - 1), self.points(end * CHUNK_STEPS, last)
        around, odd_around = _split(Points.join([line.lay(head), line.lay(tail)]))
        packed, odd_packed = self._packed_extremes(begin, end - 1, line.shifts())
        return Extremes.join([around, packed]).in_order(), Points.join([odd_around, odd_packed]).in_order()

    def _packed_extremes(self, first: int, last: int, shifts: Mapping[str, int]) -> tuple[Extremes, Points]:
        rows = self._rows(_EXTREMES_OF, first, last)
        begins = [chunk * CHUNK_STEPS + shifts[key] for key, chunk, _, _ in rows]
        fine, fine_begins = _joined([row[2] for row in rows], begins, _FINE)
        odd, odd_begins = _joined([row[3] for row in rows], begins, _POINT)
        extremes = Extremes(
            low_at=fine["low_at"] + fine_begins, low=fine["low"],
            high_at=fine["high_at"] + fine_begins, high=fine["high"],
            last_at=fine["last_at"] + fine_begins, last=fine["last"],
        )  # fmt: skip
        return extremes, Points(steps=odd["at"] + odd_begins, values=odd["value"])

    def _rows(self, query: Any, first: int, last: int) -> list[Any]:
        which = {"run": self.run_id, "metrics": self.keys, "first": first, "last": last}
        return cast(Any, self.tx.execute(query, which)).cursor.fetchall()


def _row_points(tx: Transaction, run_id: str, keys: Sequence[str], first: int, last: int) -> dict[str, Points]:
    # The driver's own tuples: SQLAlchemy's rows take three times as long.
    found: Any = tx.execute(_ROWS, {"run": run_id, "metrics": keys, "first": first, "last": last})
    return {key: _points([*rows]) for key, rows in groupby(found.cursor.fetchall(), itemgetter(0))}


def _points(rows: list[tuple[str, int, float | None, str | None]]) -> Points:
    _, steps, values, flags = zip(*rows, strict=True)
    measured = np.array(values, np.float64)  # NaN for what is null
    for place, flag in enumerate(flags) if any(flags) else ():
        if flag is not None:
            measured[place] = _NOT_FINITE[flag]
    return Points(steps=np.array(steps, np.int64), values=measured)


def _split(points: Points) -> tuple[Extremes, Points]:
    finite = np.isfinite(points.values)
    return Extremes.of(points.where(finite)), points.where(~finite)


def _packed(points: Points, begin: int) -> bytes:
    rows = np.empty(len(points.steps), _POINT)
    rows["at"], rows["value"] = points.steps - begin, points.values
    return rows.tobytes()


def _unpacked(rows: Iterable[tuple[str, int, bytes]]) -> Points:
    parts = [*rows]
    found, begins = _joined([row[2] for row in parts], [row[1] * CHUNK_STEPS for row in parts], _POINT)
    return Points(steps=found["at"] + begins, values=found["value"])


def _joined(blobs: Sequence[bytes], begins: Sequence[int], kind: np.dtype[Any]) -> tuple[npt.NDArray[Any], Steps]:
    """What all blobs hold, and of each of it the step at which its blob begins."""
    sizes = [len(blob) // kind.itemsize for blob in blobs]
    return np.frombuffer(b"".join(blobs), kind), np.repeat(np.array(begins, np.int64), sizes)
