"""Indexes in which a page of the list, and the runs of each state, are found without reading a row."""

from alembic import op

revision = "f4b92c6e7a13"
down_revision = "8e41a7d3c95b"
branch_labels = None
depends_on = None

_LOSSES = "ix_runs_archived_at_state_losses_id"


def upgrade() -> None:
    op.drop_index("ix_runs_archived_at_state", table_name="runs")
    op.create_index(_LOSSES, "runs", ["archived_at", "state", "loss", "eval_loss", "id"])
    op.create_index("ix_runs_archived_at_created_at_id_state", "runs", ["archived_at", "created_at", "id", "state"])


def downgrade() -> None:
    op.drop_index("ix_runs_archived_at_created_at_id_state", table_name="runs")
    op.drop_index(_LOSSES, table_name="runs")
    op.create_index("ix_runs_archived_at_state", "runs", ["archived_at", "state"])
