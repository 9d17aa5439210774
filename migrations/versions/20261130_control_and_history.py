"""Queues, archive, clones, live knobs, segments, and what a resumed run supersedes."""

import sqlalchemy as sa
from alembic import op

revision = "5d0c7be1f2a4"
down_revision = "b21e60d94c57"
branch_labels = None
depends_on = None

_JSON = sa.JSON(none_as_null=True)
_FILLED = (
    ("queue_device", sa.String(length=32), "cpu"),
    ("queue_rank", sa.Float(), "0"),
    ("share_device", sa.Boolean(), sa.false()),
    ("knobs", _JSON, "{}"),
    ("knobs_version", sa.BigInteger(), "0"),
    ("segment", sa.BigInteger(), "0"),
)
"""New columns that every row has, with what the rows from before get."""
_EMPTY = (
    ("archived_at", sa.DateTime(timezone=True)),
    ("cloned_from", sa.String(length=40)),
    ("asked", _JSON),
    ("cause", sa.String(length=24)),
    ("exit_status", sa.BigInteger()),
    ("boot_id", sa.String(length=40)),
)


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        for name, kind in _EMPTY:
            batch_op.add_column(sa.Column(name, kind, nullable=True))
        for name, kind, value in _FILLED:
            batch_op.add_column(sa.Column(name, kind, nullable=False, server_default=value))
    op.execute("UPDATE runs SET queue_device = device WHERE device IS NOT NULL")
    _queue_what_never_ran()
    with op.batch_alter_table("runs", schema=None) as batch_op:
        for name, kind, _ in _FILLED:  # from now on whoever inserts a row says what it holds
            batch_op.alter_column(name, existing_type=kind, existing_nullable=False, server_default=None)
    op.create_table(
        "segments",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("void_after", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_segments_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_segments")),
    )
    op.create_table(
        "superseded_metrics",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("segment", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("nonfinite", sa.String(length=4), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_superseded_metrics_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "key", "segment", "step", name=op.f("pk_superseded_metrics")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "knob_changes",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("knob", sa.String(length=64), nullable=False),
        sa.Column("old", sa.JSON(), nullable=False),
        sa.Column("new", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("undoes", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_knob_changes_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_knob_changes")),
    )


def _queue_what_never_ran() -> None:
    """A run that waits has no device yet: it goes where its spec says, and by itself to a card where there is one."""
    runs = sa.table(
        "runs", sa.column("id", sa.String()), sa.column("device", sa.String()), sa.column("queue_device", sa.String()),
        sa.column("spec", _JSON),
    )  # fmt: skip
    found = op.get_bind().execute(sa.select(runs.c.id, runs.c.spec).where(runs.c.device.is_(None))).all()
    here = "cuda:0" if found and _has_card() else "cpu"
    for run in found:
        asked = run.spec.get("offload", {}).get("device", "auto")
        device = {"auto": here, "cuda": "cuda:0"}.get(asked, asked)
        op.get_bind().execute(runs.update().where(runs.c.id == run.id).values(queue_device=device))


def _has_card() -> bool:
    import pynvml  # pyright: ignore[reportMissingTypeStubs] # here: only where old runs wait

    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetCount() > 0
    except (pynvml.NVMLError, OSError):
        return False  # no driver: no card


def downgrade() -> None:
    for table in ("knob_changes", "superseded_metrics", "segments"):
        op.drop_table(table)
    with op.batch_alter_table("runs", schema=None) as batch_op:
        for name, *_ in (*_FILLED, *_EMPTY):
            batch_op.drop_column(name)
