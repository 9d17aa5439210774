"""The folder of a run's disk tier."""

import sqlalchemy as sa
from alembic import op

revision = "b21e60d94c57"
down_revision = "846c5a1f033a"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("disk_dir", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_column("disk_dir")
