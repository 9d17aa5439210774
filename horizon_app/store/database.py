"""Connections and transactions: many readers, one writer. Knows nothing of tables.

SQLite runs in WAL mode, so readers never wait. Writers of this process take turns at a lock, and those of other
processes at SQLite's own (`BEGIN IMMEDIATE` takes it at the start, so that no transaction fails halfway).
"""

import json
import math
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import OperationalError

from horizon_app.settings import AppSettings
from horizon_app.store.errors import DatabaseBusy

Transaction = Connection
"""What the functions of the store take; nothing above the store looks inside."""

BUSY_TIMEOUT_MS = 30_000
_WRITES = "horizon_writes"
_ALTERS = "horizon_alters"


class Database:
    """One database, open."""

    def __init__(self, url: str | URL) -> None:
        self._engine = create_engine(url, json_serializer=dump_json, pool_size=8, max_overflow=56)
        self._writer = threading.Lock()
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)

    @property
    def where(self) -> str:
        """The database in words, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Generator[Transaction]:
        """A transaction that sees one moment and changes nothing."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self, *, alters_tables: bool = False) -> Generator[Transaction]:
        """The one writing transaction at a time; committed at the end, undone where the block raises.

        One that `alters_tables` may replace a table by another without the rows that refer to it being deleted with it.
        Raises DatabaseBusy where another process holds the database for longer than `BUSY_TIMEOUT_MS`.
        """
        with self._writer, self._engine.connect() as connection:
            connection = connection.execution_options(**{_WRITES: True, _ALTERS: alters_tables})
            try:
                transaction = connection.begin()
            except OperationalError as error:
                if "locked" not in str(error):
                    raise
                raise DatabaseBusy(where=self.where) from error
            with transaction:
                yield connection

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def open_database(settings: AppSettings) -> Database:
    """The database that the settings name: SQLite in the home folder unless a URL is set."""
    return Database(settings.database_url or URL.create("sqlite", database=str(settings.database_path)))


def dump_json(value: Any) -> str:
    """Strict JSON: what is not finite becomes null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast(dict[Any, Any], value).items()}
    return [_finite(item) for item in cast(list[Any], value)] if isinstance(value, list | tuple) else value


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin in `_begin_sqlite`, not by sqlite3's own guess
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={BUSY_TIMEOUT_MS}", "journal_mode=WAL", "synchronous=NORMAL", "journal_size_limit=67108864",
    ):  # fmt: skip
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    # SQLite alters a table by copying it and dropping the old one, and with foreign keys on that empties, by their
    # cascades, every table that refers to it. The switch works only outside a transaction.
    connection.exec_driver_sql(f"PRAGMA foreign_keys={'OFF' if options.get(_ALTERS, False) else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_WRITES, False) else "BEGIN")
