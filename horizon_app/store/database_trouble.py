"""From what a driver says to errors of the store that name the database and what to do."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError

from horizon_app.store.errors import DatabaseBusy, DatabaseDamaged, DatabaseUnavailable, StoreError

_DAMAGED = ("not a database", "malformed", "database corruption")
_LOCKED = ("locked", "lock timeout")


@contextmanager
def told(where: str, *, waited_s: float = 0.0) -> Generator[None]:
    """Raise DatabaseBusy, DatabaseDamaged or DatabaseUnavailable where a driver means that; the rest goes on."""
    try:
        yield
    except (DBAPIError, sqlite3.DatabaseError) as error:
        meant = _meaning(error, where, waited_s)
        if meant is None:
            raise
        raise meant from error


def _meaning(error: Exception, where: str, waited_s: float) -> StoreError | None:
    said = str(error.orig if isinstance(error, DBAPIError) else error)
    if any(word in said for word in _DAMAGED):
        return DatabaseDamaged(where=where, said=said)
    if not isinstance(error, OperationalError | sqlite3.OperationalError):
        return None
    if any(word in said for word in _LOCKED):
        return DatabaseBusy(where=where, waited_s=waited_s)
    return DatabaseUnavailable(where=where, said=said)
