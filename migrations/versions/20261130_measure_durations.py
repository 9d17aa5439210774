"""How long a run has run, measured on a clock that nobody sets."""

import sqlalchemy as sa
from alembic import op

revision = "c3a86e0d51b7"
down_revision = "c3f7a1e5d208"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("started_clock", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("ran_s", sa.Float(), nullable=False, server_default="0"))
    runs = sa.table(
        "runs",
        sa.column("id", sa.String()),
        sa.column("started_at", sa.DateTime(timezone=True)),
        sa.column("ended_at", sa.DateTime(timezone=True)),
        sa.column("ran_s", sa.Float()),
    )
    ended = sa.select(runs).where(runs.c.started_at.is_not(None), runs.c.ended_at.is_not(None))
    for row in op.get_bind().execute(ended).all():
        seconds = max(0.0, (row.ended_at - row.started_at).total_seconds())
        op.execute(runs.update().where(runs.c.id == row.id).values(ran_s=seconds))
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.alter_column("ran_s", existing_type=sa.Float(), existing_nullable=False, server_default=None)


def downgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_column("ran_s")
        batch_op.drop_column("started_clock")
