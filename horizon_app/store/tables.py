"""The tables. Knows nothing of transactions or of what the rows mean."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcTime(TypeDecorator[datetime]):
    """A moment: aware in Python, UTC in the database, whatever the time zone of the machine."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC; naive times are refused."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """SQLite gives the time back without its zone, PostgreSQL in the zone of its server."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_Json = JSON(none_as_null=True)


class Base(DeclarativeBase):
    """All tables."""

    metadata = MetaData(naming_convention=_NAMES)


_LISTED = (
    "loss", "eval_loss", "id", "created_at", "started_at", "ended_at", "ran_s", "step", "total_steps", "parameters",
    "metrics_listed", "name", "model_name",
)  # fmt: skip
_AGED = ("archived_at", "created_at", "id", "state", "metrics_listed")


class RunTable(Base):
    """One row a run: what was asked, where it stands, and how far its journal is recorded.

    `asked` is the spec as it was sent, `spec` the same with every default filled in; `knobs` are the values that were
    changed while it ran. `started_clock` is the seconds since boot `boot_id` at the last start, `ran_s` the seconds of
    the lives before. `metrics_listed` says that the rows of `run_metrics` are its `metrics`. A queue is one
    `queue_device`, in order of `queue_rank`.
    """

    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_created_at_id", "created_at", "id"),
        Index("ix_runs_state_created_at", "state", "created_at"),
        Index("ix_runs_updated_at", "updated_at"),
        # Counts by state, and filters and sorting by anything short, are answered from this one alone.
        Index("ix_runs_listed", "archived_at", "state", *_LISTED),
        # The same for pages in order of age, and for metrics: shorter, and so quicker to walk along.
        Index("ix_runs_archived_at_created_at_id_state_metrics_listed", *_AGED),
    )

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    tags: Mapped[list[str]] = mapped_column(_Json)
    notes: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text)
    held: Mapped[bool] = mapped_column()
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)
    started_clock: Mapped[float | None] = mapped_column(Float)
    ran_s: Mapped[float] = mapped_column(Float)
    stop_asked_at: Mapped[datetime | None] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)
    archived_at: Mapped[datetime | None] = mapped_column(UtcTime)
    cloned_from: Mapped[str | None] = mapped_column(String(40))
    queue_device: Mapped[str] = mapped_column(String(32))
    queue_rank: Mapped[float] = mapped_column(Float)
    share_device: Mapped[bool] = mapped_column()
    asked: Mapped[dict[str, Any] | None] = mapped_column(_Json)
    spec: Mapped[dict[str, Any]] = mapped_column(_Json)
    knobs: Mapped[dict[str, Any]] = mapped_column(_Json)
    knobs_version: Mapped[int] = mapped_column(BigInteger)
    model_dir: Mapped[str] = mapped_column(Text)
    data_paths: Mapped[list[str]] = mapped_column(_Json)
    eval_paths: Mapped[list[str]] = mapped_column(_Json)
    folders: Mapped[list[str] | None] = mapped_column(_Json)
    base_dir: Mapped[str] = mapped_column(Text)
    disk_dir: Mapped[str | None] = mapped_column(Text)
    device: Mapped[str | None] = mapped_column(String(32))
    model_name: Mapped[str] = mapped_column(Text)
    architecture: Mapped[str | None] = mapped_column(Text)
    parameters: Mapped[int | None] = mapped_column(BigInteger)
    step: Mapped[int] = mapped_column(BigInteger)
    total_steps: Mapped[int | None] = mapped_column(BigInteger)
    loss: Mapped[float | None] = mapped_column(Float)
    eval_loss: Mapped[float | None] = mapped_column(Float)
    metrics: Mapped[dict[str, float | None]] = mapped_column(_Json)
    metrics_listed: Mapped[bool] = mapped_column()
    sparkline: Mapped[dict[str, Any]] = mapped_column(_Json)
    plan: Mapped[dict[str, Any] | None] = mapped_column(_Json)
    outcome: Mapped[dict[str, Any] | None] = mapped_column(_Json)
    cause: Mapped[str | None] = mapped_column(String(24))
    exit_status: Mapped[int | None] = mapped_column(BigInteger)
    segment: Mapped[int] = mapped_column(BigInteger)
    layout_seq: Mapped[int | None] = mapped_column(BigInteger)
    last_seq: Mapped[int] = mapped_column(BigInteger)
    journal_seq: Mapped[int] = mapped_column(BigInteger)
    journal_bytes: Mapped[int] = mapped_column(BigInteger)
    pid: Mapped[int | None] = mapped_column(BigInteger)
    process_start: Mapped[float | None] = mapped_column(Float)
    boot_id: Mapped[str | None] = mapped_column(String(40))
    idempotency_key: Mapped[str | None] = mapped_column(String(255), unique=True)


RUN_TEXT_INDEX = "run_text_index"
"""SQLite's full-text index over `run_texts`, kept in step by triggers; made by a migration, since no ORM knows it."""


class RunTextTable(Base):
    """What of a run is searched for words, in lower case; of the spec its texts, a line each."""

    __tablename__ = "run_texts"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), unique=True)
    run: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    tags: Mapped[str] = mapped_column(Text)
    model: Mapped[str] = mapped_column(Text)
    architecture: Mapped[str] = mapped_column(Text)
    device: Mapped[str] = mapped_column(Text)
    notes: Mapped[str] = mapped_column(Text)  # what may be long comes last: the others are read without it
    spec: Mapped[str] = mapped_column(Text)


class RunTagTable(Base):
    """One tag of a run, without the difference of capitals, in the order in which it is looked for."""

    __tablename__ = "run_tags"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tag: Mapped[str] = mapped_column(Text, primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, index=True)


class RunMetricTable(Base):
    """The last value of one metric of a run that has ended: see `store.run_values`."""

    __tablename__ = "run_metrics"
    __table_args__ = ({"sqlite_with_rowid": False},)

    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, index=True)
    value: Mapped[float] = mapped_column(Float)


class SpecValueTable(Base):
    """One value of a run's spec that is not null: see `store.run_values`."""

    __tablename__ = "spec_values"
    __table_args__ = ({"sqlite_with_rowid": False},)

    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, index=True)
    number: Mapped[float | None] = mapped_column(Float)
    text: Mapped[str] = mapped_column(Text)


TROUBLES = text("level IN ('warning', 'error')")
"""What a query has to say, to the letter, to find warnings and errors by their index."""


class EventTable(Base):
    """A run's stream: what happened, in order. `journal_seq` is the line of the worker's journal it came from."""

    __tablename__ = "events"
    __table_args__ = (
        Index("uq_events_run_id_journal_seq", "run_id", "journal_seq", unique=True),
        Index("ix_events_run_id_type_seq", "run_id", "type", "seq"),
        Index("ix_events_run_id_seq_troubles", "run_id", "seq", sqlite_where=TROUBLES, postgresql_where=TROUBLES),
    )

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    journal_seq: Mapped[int | None] = mapped_column(BigInteger)
    time: Mapped[datetime] = mapped_column(UtcTime)
    type: Mapped[str] = mapped_column(String(16))
    level: Mapped[str | None] = mapped_column(String(8))
    message: Mapped[str | None] = mapped_column(Text)
    body: Mapped[dict[str, Any]] = mapped_column(_Json)


class _Measurement:
    """One value of one metric at one optimizer step. `value` is null where it was not finite."""

    __table_args__ = ({"sqlite_with_rowid": False},)

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    step: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    value: Mapped[float | None] = mapped_column(Float)
    nonfinite: Mapped[str | None] = mapped_column(String(4))


class MetricTable(_Measurement, Base):
    """The values that count: one a metric and step."""

    __tablename__ = "metrics"


class MetricChunkTable(Base):
    """Packed copies of the points of one metric in some hundred optimizer steps: see `store.metric_chunks`."""

    __tablename__ = "metric_chunks"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    chunk: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    points: Mapped[bytes] = mapped_column(LargeBinary)


class MetricExtremesTable(Base):
    """The extremes within each of these chunks: `fine` of its finite values, `odd` those that are not finite."""

    __tablename__ = "metric_extremes"
    __table_args__ = ({"sqlite_with_rowid": False},)

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    chunk: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    fine: Mapped[bytes] = mapped_column(LargeBinary)
    odd: Mapped[bytes] = mapped_column(LargeBinary)


class SupersededMetricTable(_Measurement, Base):
    """The values of an earlier segment whose steps were done again: kept beside the history, marked by it."""

    __tablename__ = "superseded_metrics"

    segment: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)


class SegmentTable(Base):
    """One worker's part of a run: from its start, or a resumption, to its end.

    What it measured behind `void_after` was superseded by the segment that follows.
    """

    __tablename__ = "segments"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)
    first_step: Mapped[int | None] = mapped_column(BigInteger)
    last_step: Mapped[int | None] = mapped_column(BigInteger)
    void_after: Mapped[int | None] = mapped_column(BigInteger)
    state: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text)


class KnobChangeTable(Base):
    """One change of a knob of a live run: who asked for it, and from which optimizer step it holds."""

    __tablename__ = "knob_changes"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    time: Mapped[datetime] = mapped_column(UtcTime)
    who: Mapped[str] = mapped_column(Text)
    knob: Mapped[str] = mapped_column(String(64))
    old: Mapped[Any] = mapped_column(JSON(none_as_null=False))
    new: Mapped[Any] = mapped_column(JSON(none_as_null=False))
    status: Mapped[str] = mapped_column(String(16))
    step: Mapped[int | None] = mapped_column(BigInteger)
    message: Mapped[str] = mapped_column(Text)
    undoes: Mapped[int | None] = mapped_column(BigInteger)


class CheckpointTable(Base):
    """One checkpoint folder that is complete on disk."""

    __tablename__ = "checkpoints"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    path: Mapped[str] = mapped_column(Text)
    bytes: Mapped[int] = mapped_column(BigInteger)
    time: Mapped[datetime] = mapped_column(UtcTime)


class CheckTable(Base):
    """One check of a run's checklist as it was last found, and since when its verdict is what it is."""

    __tablename__ = "checks"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    check_id: Mapped[str] = mapped_column(String(40), primary_key=True)
    place: Mapped[int] = mapped_column(Integer)
    verdict: Mapped[str] = mapped_column(String(8))
    step: Mapped[int] = mapped_column(BigInteger)
    since: Mapped[datetime] = mapped_column(UtcTime)
    since_step: Mapped[int] = mapped_column(BigInteger)
    changes: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[dict[str, Any]] = mapped_column(_Json)
