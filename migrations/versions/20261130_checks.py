"""The checklists of runs."""

import sqlalchemy as sa
from alembic import op

revision = "a7d15c3e9b64"
down_revision = "f4b92c6e7a13"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checks",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("check_id", sa.String(length=40), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.String(length=8), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("since_step", sa.BigInteger(), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_checks_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "check_id", name=op.f("pk_checks")),
    )


def downgrade() -> None:
    op.drop_table("checks")
