"""An index short enough for lists by metrics: whether a run's are listed is read without its names and numbers."""

from alembic import op

revision = "c41e7a90d25f"
down_revision = "a7d3f05c8e26"
branch_labels = None
depends_on = None

_OLD = "ix_runs_archived_at_created_at_id_state"
_NEW = f"{_OLD}_metrics_listed"
_COLUMNS = ("archived_at", "created_at", "id", "state")


def upgrade() -> None:
    op.drop_index(_OLD, table_name="runs")
    op.create_index(_NEW, "runs", [*_COLUMNS, "metrics_listed"])


def downgrade() -> None:
    op.drop_index(_NEW, table_name="runs")
    op.create_index(_OLD, "runs", [*_COLUMNS])
