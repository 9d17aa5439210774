"""Packed copies of metrics, filled from the points of old histories; warnings and errors of a log by an index."""

import math
import struct
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "c3f7a1e5d208"
down_revision = "5d0c7be1f2a4"
branch_labels = None
depends_on = None

_STEPS, _FINE_STEPS = 512, 32
_POINT, _FINE = struct.Struct("<Hd"), struct.Struct("<HHHddd")
_TROUBLES = sa.text("level IN ('warning', 'error')")
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_Point = tuple[int, float]


def upgrade() -> None:
    chunks = op.create_table(
        "metric_chunks",
        *_place(),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_metric_chunks_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "key", "chunk", name=op.f("pk_metric_chunks")),
    )
    extremes = op.create_table(
        "metric_extremes",
        *_place(),
        sa.Column("fine", sa.LargeBinary(), nullable=False),
        sa.Column("odd", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_metric_extremes_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "key", "chunk", name=op.f("pk_metric_extremes")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_events_run_id_seq_troubles", "events", ["run_id", "seq"],
        sqlite_where=_TROUBLES, postgresql_where=_TROUBLES,
    )  # fmt: skip
    _fill(op.get_bind(), chunks, extremes)


def _place() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("chunk", sa.BigInteger(), autoincrement=False, nullable=False),
    )


def _fill(connection: sa.Connection, chunks: sa.Table, extremes: sa.Table) -> None:
    """All points but those of the last chunk of each metric, which stays open for what may follow."""
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in ("run_id", "key", "step", "value", "nonfinite")]
    metrics = sa.table("metrics", *columns)
    names = sa.select(metrics.c.run_id, metrics.c.key).distinct()
    for run_id, key in connection.execute(names).all():
        within = (metrics.c.run_id == run_id, metrics.c.key == key)
        query = sa.select(metrics.c.step, metrics.c.value, metrics.c.nonfinite).where(*within).order_by(metrics.c.step)
        behind: tuple[int, list[_Point]] | None = None
        for chunk, found in groupby(connection.execute(query), lambda row: row.step // _STEPS):
            if behind is not None:
                _write(connection, {"run_id": run_id, "key": key, "chunk": behind[0]}, behind[1], chunks, extremes)
            points = [(at, _NOT_FINITE[flag or "nan"] if value is None else value) for at, value, flag in found]
            behind = chunk, [(at - chunk * _STEPS, value) for at, value in points]


def _write(
    connection: sa.Connection, place: dict[str, Any], points: list[_Point], chunks: sa.Table, extremes: sa.Table
) -> None:
    fine, odd = b"", b""
    for _, group in groupby(points, lambda point: point[0] // _FINE_STEPS):
        around = [*group]
        finite = [point for point in around if math.isfinite(point[1])]
        if finite:
            (low_at, low), (high_at, high) = min(finite, key=_value), max(finite, key=_value)
            last_at, last = finite[-1]
            fine += _FINE.pack(low_at, high_at, last_at, low, high, last)
        odd += b"".join([_POINT.pack(*point) for point in around if not math.isfinite(point[1])][:1])
    packed = b"".join(_POINT.pack(*point) for point in points)
    connection.execute(sa.insert(chunks), {**place, "points": packed})
    connection.execute(sa.insert(extremes), {**place, "fine": fine, "odd": odd})


def _value(point: _Point) -> float:
    return point[1]


def downgrade() -> None:
    op.drop_index("ix_events_run_id_seq_troubles", table_name="events")
    op.drop_table("metric_extremes")
    op.drop_table("metric_chunks")
