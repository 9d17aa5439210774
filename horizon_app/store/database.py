"""Connections and transactions: many readers, one writer. Knows nothing of tables.

SQLite runs in WAL mode, so readers never wait. Writers of this process take turns at a lock, and those of other
processes at SQLite's own (`BEGIN IMMEDIATE` takes it at the start, so that no transaction fails halfway) or at an
advisory lock of PostgreSQL.
"""

import json
import math
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from pydantic_core import from_json
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from horizon_app.settings import AppSettings
from horizon_app.store.database_trouble import told
from horizon_app.store.errors import DatabaseBusy, DatabaseUnusable

Transaction = Connection
"""What the functions of the store take; nothing above the store looks inside."""

_WRITES = "horizon_writes"
_ALTERS = "horizon_alters"
_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_WRITERS_LOCK = 0x686F72697A6F6E
"""Key of PostgreSQL's advisory lock that the writing transaction holds."""


class Database:
    """One database, open."""

    def __init__(self, url: str | URL, *, wait_s: float) -> None:
        self._wait_s = wait_s
        self._engine = _engine(url)
        self._writer = threading.Lock()
        event.listen(self._engine, "begin", _begin_sqlite if self._is_sqlite else self._begin_postgresql)
        event.listen(self._engine, "connect", self._prepare_sqlite if self._is_sqlite else _prepare_postgresql)

    @property
    def where(self) -> str:
        """The database in words, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Generator[Transaction]:
        """A transaction that sees one moment and changes nothing. Raises DatabaseDamaged, DatabaseUnavailable."""
        with told(self.where), self._engine.connect() as connection:
            if not self._is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def write(self, *, alters_tables: bool = False) -> Generator[Transaction]:
        """The one writing transaction at a time; committed at the end, undone where the block raises.

        One that `alters_tables` may replace a table by another without the rows that refer to it being deleted with it.
        Raises DatabaseBusy where others hold the database for longer than it waits, DatabaseDamaged,
        DatabaseUnavailable.
        """
        if not self._writer.acquire(timeout=self._wait_s):
            raise DatabaseBusy(where=self.where, waited_s=self._wait_s)
        try:
            with told(self.where, waited_s=self._wait_s), self._engine.connect() as connection:
                connection = connection.execution_options(**{_WRITES: True, _ALTERS: alters_tables})
                with connection.begin():
                    yield connection
        finally:
            self._writer.release()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @property
    def _is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    def _prepare_sqlite(self, connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions begin in `_begin_sqlite`, not by sqlite3's own guess
        cursor = connection.cursor()
        for pragma in (
            f"busy_timeout={int(self._wait_s * 1000)}", "journal_mode=WAL", "synchronous=NORMAL",
            "journal_size_limit=67108864",
        ):  # fmt: skip
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def _begin_postgresql(self, connection: Connection) -> None:
        if connection.get_execution_options().get(_WRITES, False):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(self._wait_s * 1000)}")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")


def open_database(settings: AppSettings) -> Database:
    """The database that the settings name: SQLite in the home folder unless a URL is set. Raises DatabaseUnusable."""
    url = settings.database_url or URL.create("sqlite", database=str(settings.database_path))
    return Database(url, wait_s=settings.database_wait_s)


def _engine(url: str | URL) -> Engine:
    try:
        backend = make_url(url).get_backend_name()
        # A server may have been started anew since a connection was made; a file has not.
        is_file = backend == "sqlite"
        engine = create_engine(
            url, json_serializer=dump_json if is_file else _dump_json_without_nul, json_deserializer=from_json,
            pool_size=8, max_overflow=56, pool_pre_ping=not is_file,
        )  # fmt: skip
    except (ArgumentError, ModuleNotFoundError) as error:
        raise DatabaseUnusable(str(error)) from error
    if backend not in ("sqlite", "postgresql"):
        raise DatabaseUnusable(f"{backend} is neither sqlite nor postgresql")
    return engine


def _prepare_postgresql(connection: Any, _record: object) -> None:
    """PostgreSQL's texts hold no NUL, and a log line may: it becomes the sign for what can't be shown."""
    from psycopg.types.string import StrDumperUnknown

    class NulFree(StrDumperUnknown):
        def dump(self, obj: str) -> Any:
            return super().dump(obj.replace("\0", "\ufffd"))

    connection.adapters.register_dumper(str, NulFree)


def _dump_json_without_nul(value: Any) -> str:
    """The same in JSON: PostgreSQL takes an escaped NUL there, and fails whenever it is asked for a text beside it."""
    return _ESCAPED_NUL.sub(r"\1\\ufffd", dump_json(value))


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


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    # SQLite alters a table by copying it and dropping the old one, and with foreign keys on that empties, by their
    # cascades, every table that refers to it. The switch works only outside a transaction.
    connection.exec_driver_sql(f"PRAGMA foreign_keys={'OFF' if options.get(_ALTERS, False) else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_WRITES, False) else "BEGIN")
