"""Brings a database to the newest tables. The migrations lie in the wheel, or beside the package in a clone."""

from pathlib import Path

import horizon_app
from horizon_app.store.database import Database
from horizon_app.store.errors import DatabaseNewer


def migrations_dir() -> Path:
    """The folder of Alembic's scripts."""
    package = Path(horizon_app.__file__).parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def migrate(database: Database) -> None:
    """Apply what is missing, in one transaction that other processes wait for. Raises StoreError.

    Where nothing is missing, nothing is written: a history that somebody holds can be read.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    with database.read() as tx:
        if (
            MigrationContext.configure(tx).get_current_revision()
            == ScriptDirectory.from_config(config).get_current_head()
        ):
            return
    with database.write(alters_tables=True) as tx:
        config.attributes["connection"] = tx
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            if "locate revision" not in str(error):
                raise
            raise DatabaseNewer(where=database.where, revision=str(error).rsplit("'", 2)[-2]) from error
