"""The queues, one a device: who waits, in which order."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import bindparam, func, select, update

from horizon_app.contracts.run_state import ENDED, RunState
from horizon_app.store.database import Transaction
from horizon_app.store.runs import RUN_COLUMNS, StoredRun, stored_run
from horizon_app.store.tables import RunTable

_T = RunTable
_QUEUED = _T.state == RunState.QUEUED.value
_ORDER = (_T.queue_rank, _T.created_at, _T.id)


def queued_runs(tx: Transaction, device: str | None = None) -> list[StoredRun]:
    """Runs that wait, held ones too, by device and place in its queue."""
    query = select(*RUN_COLUMNS).where(_QUEUED).order_by(_T.queue_device, *_ORDER)
    if device is not None:
        query = query.where(_T.queue_device == device)
    return [stored_run(row) for row in tx.execute(query).mappings()]


def lately_ended(tx: Transaction, limit: int) -> list[StoredRun]:
    """The runs that ended last and had a worker, the latest first."""
    ended = _T.state.in_([state.value for state in ENDED])
    query = select(*RUN_COLUMNS).where(ended, _T.pid.is_not(None)).order_by(_T.ended_at.desc()).limit(limit)
    return [stored_run(row) for row in tx.execute(query).mappings()]


def queue_positions(tx: Transaction) -> dict[str, int]:
    """The place of every run that waits in the queue of its device, from 1, held ones counted."""
    place = func.row_number().over(partition_by=_T.queue_device, order_by=_ORDER)
    rows = tx.execute(select(_T.id, place.label("place")).where(_QUEUED))
    return {row.id: row.place for row in rows}


def rank_behind(tx: Transaction, device: str) -> float:
    """The rank of a run that waits behind all others."""
    last = func.coalesce(func.max(_T.queue_rank), 0.0)
    return tx.execute(select(last + 1.0).where(_QUEUED, _T.queue_device == device)).scalar_one()


def rank_before(tx: Transaction, device: str) -> float:
    """The rank of a run that waits before all others."""
    first = func.coalesce(func.min(_T.queue_rank), 2.0)
    return tx.execute(select(first - 1.0).where(_QUEUED, _T.queue_device == device)).scalar_one()


def write_queue(tx: Transaction, run_ids: Sequence[str]) -> None:
    """Give the runs of one queue the order in which they are named."""
    query = (
        update(_T).where(_T.id == bindparam("run")).values(queue_rank=bindparam("rank"), updated_at=bindparam("now"))
    )
    now = datetime.now(UTC)
    rows = [{"run": run_id, "rank": float(rank), "now": now} for rank, run_id in enumerate(run_ids, start=1)]
    if rows:
        tx.execute(query, rows)


def touch_queue(tx: Transaction, device: str) -> None:
    """Mark the runs of a queue as changed: their places are others now."""
    tx.execute(update(_T).where(_QUEUED, _T.queue_device == device).values(updated_at=datetime.now(UTC)))
