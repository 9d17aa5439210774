"""Counts and sizes of the whole database, for those who watch it from outside."""

from sqlalchemy import func, select, text

from horizon_app.contracts.run_state import RunState
from horizon_app.store.database import Transaction
from horizon_app.store.tables import RunTable as _T


def run_counts(tx: Transaction) -> dict[RunState, int]:
    """Runs in each state, archived ones too."""
    none = dict.fromkeys(RunState, 0)
    rows = tx.execute(select(_T.state, func.count()).group_by(_T.state))
    return none | {RunState(state): count for state, count in rows}


def queue_lengths(tx: Transaction) -> dict[str, int]:
    """Runs that wait for each device, held ones left out."""
    waiting = _T.state == RunState.QUEUED.value, _T.held.is_(False)
    rows = tx.execute(select(_T.queue_device, func.count()).where(*waiting).group_by(_T.queue_device))
    return {device or "": count for device, count in rows}


def database_bytes(tx: Transaction) -> int:
    """Size of the database."""
    if tx.dialect.name == "sqlite":
        pages, size = (tx.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size"))
        return pages * size
    return tx.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
