"""A private PostgreSQL server for tests, from Debian's package: a folder of its own, a Unix socket, no fsync."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psycopg
import pytest

REQUIRED = os.environ.get("HORIZON_CI") == "1"
"""Read before the tests clear the environment: in continuous integration a missing server is a failure."""
_numbers = itertools.count()


def find_programs() -> Path | None:
    """The folder of initdb and pg_ctl: the newest that Debian's packages installed, else what is on the path."""
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    if versions:
        return max(versions, key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


class PostgresServer:
    """A server that lives as long as the block it is started for."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self._template = ""
        self._emptied: list[str] = []

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="horizon-pg-"))
        if os.geteuid() == 0:  # initdb refuses to run as root
            shutil.chown(self._folder, self._user)
        self._do("initdb", "-D", "data", "-U", "horizon", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        options = f"-F -k {self._folder} -c listen_addresses='' -c max_connections=200"
        self._do("pg_ctl", "start", "-D", "data", "-w", "-t", "60", "-l", "log", "-o", options)
        return self

    def __exit__(self, *_: object) -> None:
        self._do("pg_ctl", "stop", "-D", "data", "-m", "immediate", "-w")
        shutil.rmtree(self._folder)

    def new_database(self) -> str:
        """SQLAlchemy's URL of a database with all tables and nothing in them."""
        if self._emptied:
            return self._emptied.pop()
        if not self._template:
            self._template = self._create("template1")
            self._migrate(self.url(self._template))
        return self.url(self._create(self._template))

    def give_back(self, url: str) -> None:
        """Empty a database for the next test: a new one is three hundred files, which take longer."""
        with self.connect(url) as connection, self.connect(self.url(self._template)) as template:
            asked = "SELECT version_num FROM alembic_version"
            if connection.execute(asked).fetchall() == template.execute(asked).fetchall():
                connection.execute("TRUNCATE runs RESTART IDENTITY CASCADE")
                self._emptied.append(url)

    def url(self, name: str) -> str:
        """SQLAlchemy's URL of a database."""
        return f"postgresql+psycopg://horizon@/{name}?host={self._folder}"

    def connect(self, url: str) -> psycopg.Connection:
        """A connection beside the app's."""
        return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)

    def _create(self, template: str) -> str:
        name = f"horizon_{next(_numbers)}"
        with self.connect(self.url("postgres")) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")  # pyright: ignore[reportCallIssue, reportArgumentType]
        return name

    def _migrate(self, url: str) -> None:
        from horizon_app.settings import AppSettings
        from horizon_app.store.database import open_database
        from horizon_app.store.migrate import migrate

        database = open_database(AppSettings(database_url=url))
        migrate(database)
        database.close()

    def _do(self, program: str, *arguments: str) -> None:
        command: Sequence[str] = [str(self._programs / program), *arguments]
        user = self._user if os.geteuid() == 0 else None
        # Output to a file: the server inherits it, and a pipe would stay open as long as it lives.
        with (self._folder / "output").open("a") as output:
            done = subprocess.run(command, cwd=self._folder, user=user, stdout=output, stderr=output, check=False)
        assert done.returncode == 0, (self._folder / "output").read_text()


def need_programs() -> Path:
    """The programs, or the reason why a test is skipped; in continuous integration it fails."""
    programs = find_programs()
    if programs is None:
        reason = "PostgreSQL is not installed (Debian: apt-get install postgresql)"
        pytest.fail(reason) if REQUIRED else pytest.skip(reason)
    return programs
