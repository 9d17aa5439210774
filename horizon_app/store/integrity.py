"""Whether a database can be read and is whole. Changes nothing, not even an old layout."""

from horizon_app.settings import AppSettings
from horizon_app.store.database import open_database
from horizon_app.store.errors import DatabaseBusy, DatabaseDamaged, DatabaseUnavailable


def faults_of_database(settings: AppSettings) -> tuple[str, list[str]]:
    """Where the database is, and what is wrong with it: nothing where it is whole."""
    database = open_database(settings)
    try:
        with database.read() as tx:
            if tx.dialect.name != "sqlite":
                tx.exec_driver_sql("SELECT count(*) FROM runs")
                return database.where, []
            # Without the comparison of each index with its table, which takes minutes on a long history.
            said = tx.exec_driver_sql("PRAGMA quick_check(20)").scalars().all()
        return database.where, [str(line) for line in said if line != "ok"]
    except (DatabaseDamaged, DatabaseUnavailable) as error:
        return database.where, [error.said]
    except DatabaseBusy as error:
        return database.where, [str(error)]
    finally:
        database.close()
