"""Rows of metrics: one value a key and step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from horizon_app.contracts.events import MetricsRecorded
from horizon_app.store.database import Transaction
from horizon_app.store.downsample import thin
from horizon_app.store.tables import MetricTable

_T = MetricTable
Flag = Literal["nan", "inf", "-inf"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSeries:
    """One metric: finite points, thinned, and the steps at which it was not finite."""

    points: list[tuple[int, float | None]]
    nonfinite: list[tuple[int, Flag]]


def record_metrics(tx: Transaction, run_id: str, events: Sequence[MetricsRecorded]) -> None:
    """Set the values of these steps; a step that was recorded before (in an earlier attempt) is replaced."""
    rows = {
        (key, event.step): {
            "run_id": run_id, "key": key, "step": event.step, "value": value, "nonfinite": event.nonfinite.get(key),
        }
        for event in events
        for key, value in event.values.items()
    }  # fmt: skip
    if not rows:
        return
    make: Any = postgresql.insert if tx.dialect.name == "postgresql" else sqlite.insert
    statement = make(_T)
    statement = statement.on_conflict_do_update(
        index_elements=["run_id", "key", "step"],
        set_={"value": statement.excluded.value, "nonfinite": statement.excluded.nonfinite},
    )
    tx.execute(statement, list(rows.values()))


def forget_metrics(tx: Transaction, run_id: str, *, after: int) -> None:
    """Remove the values of all steps behind `after`."""
    tx.execute(delete(_T).where(_T.run_id == run_id, _T.step > after))


def metric_keys(tx: Transaction, run_id: str) -> list[str]:
    """Names of the metrics that a run has."""
    return list(tx.execute(select(_T.key).where(_T.run_id == run_id).distinct().order_by(_T.key)).scalars())


def series(
    tx: Transaction, run_id: str, keys: Sequence[str], *, first: int | None, last: int | None, max_points: int
) -> Mapping[str, StoredSeries]:
    """Each of these metrics between two steps (both included), thinned to about `max_points`."""
    return {key: _series(tx, run_id, key, first, last, max_points) for key in keys}


def _series(
    tx: Transaction, run_id: str, key: str, first: int | None, last: int | None, max_points: int
) -> StoredSeries:
    within: list[ColumnElement[bool]] = [_T.run_id == run_id, _T.key == key]
    within += [] if first is None else [_T.step >= first]
    within += [] if last is None else [_T.step <= last]
    summary = select(func.count(), func.min(_T.step), func.max(_T.step), func.count(_T.nonfinite))
    count, low, high, flags = tx.execute(summary.where(*within)).one()
    nonfinite = _nonfinite(tx, within) if flags else []
    query = select(_T.step, _T.value).where(*within).order_by(_T.step)
    if count <= max_points:
        return StoredSeries(points=[(step, value) for step, value in tx.execute(query)], nonfinite=nonfinite)
    # The driver's own tuples: a million of SQLAlchemy's rows take a second longer.
    rows: Any = tx.execute(query.where(_T.value.is_not(None))).cursor
    return StoredSeries(points=[*thin(rows, first=low, last=high, max_points=max_points)], nonfinite=nonfinite)


def _nonfinite(tx: Transaction, within: list[ColumnElement[bool]]) -> list[tuple[int, Flag]]:
    rows = tx.execute(select(_T.step, _T.nonfinite).where(*within, _T.nonfinite.is_not(None)).order_by(_T.step))
    return [(step, cast(Flag, flag)) for step, flag in rows]
