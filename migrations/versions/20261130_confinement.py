"""Where the eval data of a run lies, as it was checked, and the folders that its files may lie in."""

import os
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "a7d30c5e9b16"
down_revision = "a7d15c3e9b64"
branch_labels = None
depends_on = None

_JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("eval_paths", _JSON, nullable=False, server_default="[]"))
        batch_op.add_column(sa.Column("folders", _JSON, nullable=True))
    runs = sa.table(
        "runs", sa.column("id", sa.String()), sa.column("base_dir", sa.Text()), sa.column("spec", _JSON),
        sa.column("eval_paths", _JSON),
    )  # fmt: skip
    named = runs.c.spec[("data", "eval_path")].as_string()
    rows = op.get_bind().execute(sa.select(runs.c.id, runs.c.base_dir, runs.c.spec).where(named.is_not(None))).all()
    for row in rows:
        op.execute(runs.update().where(runs.c.id == row.id).values(eval_paths=_real_paths(row.base_dir, row.spec)))
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.alter_column("eval_paths", existing_type=_JSON, existing_nullable=False, server_default=None)


def downgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_column("folders")
        batch_op.drop_column("eval_paths")


def _real_paths(base_dir: str, spec: dict[str, Any]) -> list[str]:
    """As each start of the run has resolved them until now."""
    named = spec["data"]["eval_path"]
    texts: list[str] = [named] if isinstance(named, str) else named
    return [os.path.realpath(os.path.join(base_dir, os.path.expanduser(text))) for text in texts]  # noqa: PTH111, PTH118
