"""Texts of runs that are searched for words, their last eval loss, and a segment for what each has done so far."""

import json
from collections.abc import Iterator
from typing import Any, cast

import sqlalchemy as sa
from alembic import op

revision = "8e41a7d3c95b"
down_revision = "c3a86e0d51b7"
branch_labels = None
depends_on = None

_TEXTS = ("run", "name", "tags", "model", "architecture", "device", "notes", "spec")
_NEW, _OLD = (", ".join(f"{row}.{name}" for name in ("id", *_TEXTS)) for row in ("new", "old"))
_INTO = f"INSERT INTO run_text_index(rowid, {', '.join(_TEXTS)})"
_OUT_OF = f"INSERT INTO run_text_index(run_text_index, rowid, {', '.join(_TEXTS)}) VALUES ('delete', {_OLD})"  # noqa: S608
_BATCH = 500


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("eval_loss", sa.Float(), nullable=True))
        batch_op.create_index("ix_runs_archived_at_state", ["archived_at", "state"], unique=False)
    table = op.create_table(
        "run_texts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=40), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _TEXTS),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_texts_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_texts")),
        sa.UniqueConstraint("run_id", name=op.f("uq_run_texts_run_id")),
    )
    if op.get_bind().dialect.name == "sqlite":
        _index_texts()
    _fill(table)
    _first_segments()


def _index_texts() -> None:
    columns = ", ".join(_TEXTS)
    op.execute(
        f"CREATE VIRTUAL TABLE run_text_index USING fts5({columns}, content='run_texts', content_rowid='id', "
        "tokenize='trigram case_sensitive 1')"
    )
    op.execute(f"CREATE TRIGGER run_texts_insert AFTER INSERT ON run_texts BEGIN {_INTO} VALUES ({_NEW}); END")  # noqa: S608
    op.execute(f"CREATE TRIGGER run_texts_delete AFTER DELETE ON run_texts BEGIN {_OUT_OF}; END")
    op.execute(
        f"CREATE TRIGGER run_texts_update AFTER UPDATE ON run_texts BEGIN {_OUT_OF}; {_INTO} VALUES ({_NEW}); END"
    )


def _fill(table: sa.Table) -> None:
    bind = op.get_bind()
    names = "id, name, notes, tags, model_name, architecture, device, spec, metrics"
    for batch in bind.execute(sa.text(f"SELECT {names} FROM runs")).partitions(_BATCH):  # noqa: S608
        op.bulk_insert(table, [_texts(row) for row in batch])
        losses = [{"run": row.id, "loss": _decoded(row.metrics).get("eval/loss")} for row in batch]
        bind.execute(sa.text("UPDATE runs SET eval_loss = :loss WHERE id = :run"), losses)


def _texts(row: Any) -> dict[str, str]:
    spec = {key: value for key, value in _decoded(row.spec).items() if key not in ("name", "tags", "notes")}
    return {
        "run_id": row.id,
        "run": row.id.casefold(),
        "name": row.name.casefold(),
        "notes": row.notes.casefold(),
        "tags": "".join(f"\n{tag.casefold()}\n" for tag in _decoded(row.tags)),
        "model": row.model_name.casefold(),
        "architecture": (row.architecture or "").casefold(),
        "device": (row.device or "").casefold(),
        "spec": "\n".join(text.casefold() for text in _strings(spec)),
    }


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        items = cast(dict[str, Any], value).values() if isinstance(value, dict) else cast(list[Any], value)
        for item in items:
            yield from _strings(item)


def _first_segments() -> None:
    """What was done before segments were kept counts as one, ended as the run has, or when it was queued again."""
    op.execute(
        "INSERT INTO segments (run_id, number, started_at, ended_at, first_step, last_step, void_after, state, reason) "
        "SELECT id, 1, started_at, CASE WHEN state = 'queued' THEN updated_at ELSE ended_at END, 1, step, NULL, "
        "CASE WHEN ended_at IS NOT NULL THEN state END, CASE WHEN ended_at IS NOT NULL THEN reason ELSE '' END "
        "FROM runs WHERE started_at IS NOT NULL"
    )
    op.execute("UPDATE runs SET segment = 1 WHERE started_at IS NOT NULL")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE run_text_index")
    op.drop_table("run_texts")
    op.execute("DELETE FROM segments")
    op.execute("UPDATE runs SET segment = 0")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_index("ix_runs_archived_at_state")
        batch_op.drop_column("eval_loss")
