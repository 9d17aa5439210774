"""Rows of checkpoints."""

from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from horizon_app.contracts.events import CheckpointWritten
from horizon_app.store.database import Transaction
from horizon_app.store.tables import CheckpointTable

_T = CheckpointTable


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCheckpoint:
    """A checkpoint that is on disk."""

    step: int
    path: str
    bytes: int


def record_checkpoint(tx: Transaction, run_id: str, event: CheckpointWritten) -> None:
    """Note a checkpoint; one of the same step is replaced."""
    values = {"path": event.path, "bytes": event.bytes, "time": event.time}
    make = postgresql.insert if tx.dialect.name == "postgresql" else sqlite.insert
    statement = make(_T).values(run_id=run_id, step=event.step, **values)
    tx.execute(statement.on_conflict_do_update(index_elements=["run_id", "step"], set_=values))


def forget_checkpoint(tx: Transaction, run_id: str, step: int) -> None:
    """A checkpoint's folder was removed to make room."""
    tx.execute(delete(_T).where(_T.run_id == run_id, _T.step == step))


def checkpoints_of(tx: Transaction, run_id: str) -> list[StoredCheckpoint]:
    """The checkpoints of a run, in order."""
    rows = tx.execute(select(_T.step, _T.path, _T.bytes).where(_T.run_id == run_id).order_by(_T.step))
    return [StoredCheckpoint(step=row.step, path=row.path, bytes=row.bytes) for row in rows]
