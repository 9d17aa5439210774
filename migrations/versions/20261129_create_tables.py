"""Runs, their events, metrics and checkpoints."""

import sqlalchemy as sa
from alembic import op

revision = "846c5a1f033a"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stop_asked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("spec", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("model_dir", sa.Text(), nullable=False),
        sa.Column("data_paths", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("base_dir", sa.Text(), nullable=False),
        sa.Column("device", sa.String(length=32), nullable=True),
        sa.Column("model_name", sa.Text(), nullable=False),
        sa.Column("architecture", sa.Text(), nullable=True),
        sa.Column("parameters", sa.BigInteger(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("total_steps", sa.BigInteger(), nullable=True),
        sa.Column("loss", sa.Float(), nullable=True),
        sa.Column("metrics", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("sparkline", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("plan", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("outcome", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("layout_seq", sa.BigInteger(), nullable=True),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("journal_seq", sa.BigInteger(), nullable=False),
        sa.Column("journal_bytes", sa.BigInteger(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("process_start", sa.Float(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_runs_idempotency_key")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index("ix_runs_created_at_id", ["created_at", "id"], unique=False)
        batch_op.create_index("ix_runs_state_created_at", ["state", "created_at"], unique=False)
        batch_op.create_index("ix_runs_updated_at", ["updated_at"], unique=False)

    op.create_table(
        "checkpoints",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_checkpoints_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", name=op.f("pk_checkpoints")),
    )
    op.create_table(
        "events",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("journal_seq", sa.BigInteger(), nullable=True),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("level", sa.String(length=8), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_events_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_events")),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index("ix_events_run_id_type_seq", ["run_id", "type", "seq"], unique=False)
        batch_op.create_index("uq_events_run_id_journal_seq", ["run_id", "journal_seq"], unique=True)

    op.create_table(
        "metrics",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("nonfinite", sa.String(length=4), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_metrics_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "key", "step", name=op.f("pk_metrics")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("metrics")
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index("uq_events_run_id_journal_seq")
        batch_op.drop_index("ix_events_run_id_type_seq")

    op.drop_table("events")
    op.drop_table("checkpoints")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_index("ix_runs_updated_at")
        batch_op.drop_index("ix_runs_state_created_at")
        batch_op.drop_index("ix_runs_created_at_id")

    op.drop_table("runs")
