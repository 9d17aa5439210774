"""What lists are filtered by without reading JSON: a row a tag, a value of a spec, a last metric; an index of words."""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any, cast

import sqlalchemy as sa
from alembic import op
from sqlalchemy.exc import DBAPIError

revision = "a7d3f05c8e26"
down_revision = "a7d30c5e9b16"
branch_labels = None
depends_on = None

_log = logging.getLogger(__name__)
_LOSSES = ("archived_at", "state", "loss", "eval_loss", "id")
_LISTED = (
    *_LOSSES, "created_at", "started_at", "ended_at", "ran_s", "step", "total_steps", "parameters", "metrics_listed",
    "name", "model_name",
)  # fmt: skip
_ENDED = "state IN ('finished', 'stopped', 'failed', 'interrupted')"
_BATCH = 500
_SIZES = ("offload.param_block_size", "offload.host_memory", "offload.disk_memory")
_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_LARGEST = 1.7e308
_TEXTS = ("run", "name", "tags", "model", "architecture", "device", "notes", "spec")


def upgrade() -> None:
    number, text = sa.Column("number", sa.Float(), nullable=True), sa.Column("text", sa.Text(), nullable=False)
    tags = _table("run_tags", sa.Column("tag", sa.Text(), nullable=False))
    metrics = _table("run_metrics", _key(), sa.Column("value", sa.Float(), nullable=False))
    values = _table("spec_values", _key(), number, text)
    op.drop_index("ix_runs_archived_at_state_losses_id", table_name="runs")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("metrics_listed", sa.Boolean(), nullable=False, server_default=sa.false()))
    _fill(op.get_bind(), tags, metrics, values)
    op.execute(f"UPDATE runs SET metrics_listed = true WHERE {_ENDED}")  # noqa: S608
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.alter_column(
            "metrics_listed", existing_type=sa.Boolean(), existing_nullable=False, server_default=None
        )
    op.create_index("ix_runs_listed", "runs", [*_LISTED])
    if op.get_bind().dialect.name == "postgresql":
        _index_words(op.get_bind())


def _key() -> sa.Column[str]:
    return sa.Column("key", sa.String(length=200), nullable=False)


def _table(name: str, first: sa.Column[str], *others: sa.Column[Any]) -> sa.Table:
    """Rows of runs in the order of what is asked for first, and found by their run, with which they go."""
    table = op.create_table(
        name,
        first,
        sa.Column("run_id", sa.String(length=40), nullable=False),
        *others,
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f(f"fk_{name}_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint(first.name, "run_id", name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )
    op.create_index(f"ix_{name}_run_id", name, ["run_id"])
    return table


def _fill(bind: sa.Connection, tags: sa.Table, metrics: sa.Table, values: sa.Table) -> None:
    query = sa.text(f"SELECT id, tags, spec, metrics, {_ENDED} AS ended FROM runs ORDER BY id")  # noqa: S608
    for batch in bind.execute(query.execution_options(yield_per=_BATCH)).partitions():
        for table, rows in ((tags, _tags), (values, _spec_values), (metrics, _metrics)):
            found = [{"run_id": run.id, **row} for run in batch for row in rows(run)]
            if found:
                bind.execute(sa.insert(table), found)


def _tags(run: Any) -> Iterator[dict[str, Any]]:
    for tag in dict.fromkeys(tag.casefold() for tag in _decoded(run.tags)):
        yield {"tag": tag}


def _metrics(run: Any) -> Iterator[dict[str, Any]]:
    for key, value in _decoded(run.metrics).items() if run.ended else ():
        if value is not None:
            yield {"key": key, "value": value}


def _spec_values(run: Any) -> Iterator[dict[str, Any]]:
    for key, value in _leaves(_decoded(run.spec), ""):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        yield {"key": key, "text": text.casefold(), "number": _number(key, value)}


def _leaves(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(cast(dict[str, Any], value), f"{prefix}{name}.")
        elif prefix and value is not None:  # name, tags and notes are fields of their own
            yield f"{prefix}{name}", value


def _number(key: str, value: Any) -> float | None:
    if isinstance(value, str) and key in _SIZES:
        size = _SIZE.fullmatch(value)
        unit = None if size is None else _UNITS.get(size[2].lower())
        return None if size is None or unit is None else float(size[1]) * unit
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        return None
    return float(value)


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _index_words(bind: sa.Connection) -> None:
    """Three-letter pieces of all texts. Without the right to it, or the extension, texts are read row by row."""
    columns = ", ".join(f"{name} gin_trgm_ops" for name in _TEXTS)
    try:
        with bind.begin_nested():
            bind.execute(sa.text("CREATE EXTENSION IF NOT EXISTS pg_trgm"))
            bind.execute(sa.text(f"CREATE INDEX ix_run_texts_words ON run_texts USING gin ({columns})"))
    except DBAPIError as error:
        _log.warning("words are searched for without an index, since pg_trgm can't be had: %s", error.orig)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP INDEX IF EXISTS ix_run_texts_words")
    op.drop_index("ix_runs_listed", table_name="runs")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_column("metrics_listed")
    op.create_index("ix_runs_archived_at_state_losses_id", "runs", [*_LOSSES])
    for table in ("run_tags", "run_metrics", "spec_values"):
        op.drop_table(table)
