"""Alembic's entry: on the connection that the app hands over, or on the database that the settings name."""

from alembic import context

from horizon_app.settings import AppSettings
from horizon_app.store.database import open_database
from horizon_app.store.tables import Base


def run() -> None:
    connection = context.config.attributes.get("connection")
    if connection is not None:
        _migrate(connection)
        return
    database = open_database(AppSettings())
    try:
        with database.write(alters_tables=True) as tx:
            _migrate(tx)
    finally:
        database.close()


def _migrate(connection: object) -> None:
    # Batches: SQLite can't alter most of a table in place.
    context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)  # pyright: ignore[reportArgumentType]
    context.run_migrations()


run()
