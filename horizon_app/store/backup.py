"""Backups of the history while others write to it, and the database's own checks of what it holds."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, make_url, select, text
from sqlalchemy.exc import DatabaseError

from horizon_app.settings import AppSettings
from horizon_app.store.database import Transaction, open_database
from horizon_app.store.database_trouble import told
from horizon_app.store.errors import BackupRefused, DatabaseUnavailable
from horizon_app.store.tables import RunTable

_MOST_PROBLEMS = 20
_CHECK_WORDS = "INSERT INTO run_text_index(run_text_index, rank) VALUES ('integrity-check', 1)"
_REBUILD_WORDS = "INSERT INTO run_text_index(run_text_index) VALUES ('rebuild')"


@dataclass(frozen=True, kw_only=True, slots=True)
class Backup:
    """A copy of the history that is whole and on the disk."""

    path: Path
    bytes: int
    runs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What a check of the database found; no problems where it is whole."""

    database: str
    revision: str
    runs: int
    problems: list[str]


def back_up(settings: AppSettings, target: Path, *, overwrite: bool = False) -> Backup:
    """Copy the SQLite history as it is at one moment into a new file, which appears when it is whole and checked.

    Raises BackupRefused, DatabaseDamaged, DatabaseUnavailable, OSError.
    """
    source = _sqlite_file(settings)
    if target.is_dir():
        raise BackupRefused(f"{target} is a folder; name a file in it, for example {target / 'horizon-backup.db'}")
    if target.exists() and (not overwrite or target.samefile(source)):
        what = "is the history itself" if target.samefile(source) else "is there already; --force writes over it"
        raise BackupRefused(f"{target} {what}")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    part.touch(mode=0o600)  # an error here names the file, where SQLite names none
    try:
        with told(str(source)):
            runs = _copy(source, part)
        _to_disk(part)
        part.replace(target)
        _to_disk(target.absolute().parent)
    finally:
        part.unlink(missing_ok=True)
    return Backup(path=target, bytes=target.stat().st_size, runs=runs)


def check_database(settings: AppSettings) -> Health:
    """Ask the database whether all it holds is whole. Raises StoreError where it can't be asked."""
    if _is_sqlite(settings):
        _sqlite_file(settings)  # which opening would make, were it missing
    database = open_database(settings)
    try:
        with database.write() as tx:  # the index of words is checked by a statement that counts as a write
            revision = tx.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
            runs = tx.execute(select(func.count()).select_from(RunTable)).scalar_one()
            problems = _sqlite_problems(tx) if tx.dialect.name == "sqlite" else []
        return Health(database=database.where, revision=revision, runs=runs, problems=problems)
    finally:
        database.close()


def _is_sqlite(settings: AppSettings) -> bool:
    return settings.database_url is None or make_url(settings.database_url).get_backend_name() == "sqlite"


def _sqlite_file(settings: AppSettings) -> Path:
    path = settings.database_path
    if settings.database_url is not None:
        url = make_url(settings.database_url)
        if not _is_sqlite(settings):
            shown = url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)
            raise BackupRefused(
                "the history lies in PostgreSQL, which makes its own backups: "
                f"pg_dump --format=custom --file=horizon.dump '{shown}'"
            )
        path = Path(url.database or "")
    if not path.is_file():
        raise DatabaseUnavailable(where=str(path), said="there is no such file, so there is nothing to back up")
    return path


def _copy(source: Path, part: Path) -> int:
    uri = f"{source.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True)) as ours, closing(sqlite3.connect(part)) as copy:
        ours.backup(copy)  # in one go: a reader of one moment, whom writers don't disturb
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        wrong = [row[0] for row in copy.execute("PRAGMA integrity_check(1)") if row[0] != "ok"]
        if wrong:
            raise sqlite3.DatabaseError(f"database corruption: {wrong[0]}")
        return copy.execute("SELECT count(*) FROM runs").fetchone()[0]


def _sqlite_problems(tx: Transaction) -> list[str]:
    found = [row[0] for row in tx.execute(text(f"PRAGMA integrity_check({_MOST_PROBLEMS})")) if row[0] != "ok"]
    found += [
        f"row {row[1]} of {row[0]} belongs to nothing in {row[2]}"
        for row in tx.execute(text("PRAGMA foreign_key_check")).fetchmany(_MOST_PROBLEMS)
    ]
    try:
        tx.execute(text(_CHECK_WORDS))
    except DatabaseError:
        found.append(f"the index of words is out of step with the runs; this mends it: {_REBUILD_WORDS}")
    return found


def _to_disk(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
