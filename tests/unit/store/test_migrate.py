"""Models and migrations agree; a database is brought up to date once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import text

from horizon_app.contracts.events import LogWritten, metrics_event
from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.contracts.run_state import RunState
from horizon_app.store.database import Database
from horizon_app.store.errors import DatabaseNewer
from horizon_app.store.events import NewEvent, append_events
from horizon_app.store.metrics import record_metrics
from horizon_app.store.migrate import migrate, migrations_dir
from horizon_app.store.run_list import RunFilter, list_runs
from horizon_app.store.runs import get_order, update_run
from horizon_app.store.tables import RUN_TEXT_INDEX, Base
from tests.support.stores import add_run, open_store


def to_revision(database: Database, revision: str, way: Callable[[Config, str], None]) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()))
    with database.write(alters_tables=True) as tx:
        config.attributes["connection"] = tx
        way(config, revision)


def is_of_the_models(name: str | None, kind: str, _parents: object) -> bool:
    """All but SQLite's full-text index, which it keeps in tables of its own."""
    return kind != "table" or name is None or not name.startswith(RUN_TEXT_INDEX)


@pytest.mark.usefixtures("any_database")
def test_models_and_head_agree(tmp_path: Path) -> None:
    with open_store(tmp_path) as database, database.read() as tx:
        options = {"compare_type": True, "include_name": is_of_the_models}
        assert compare_metadata(MigrationContext.configure(tx, opts=options), Base.metadata) == []


@pytest.mark.usefixtures("any_database")
def test_migrate_again_keeps_everything(tmp_path: Path) -> None:
    with open_store(tmp_path / "名 % home") as database:
        run_id = add_run(database)
        migrate(database)
        with database.read() as tx:
            assert tx.execute(text("SELECT id FROM runs")).scalars().all() == [run_id]


def test_migrate_of_the_first_history_keeps_its_runs_and_events(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        waiting = add_run(database, spec={"offload": {"device": "cuda"}})
        with database.write() as tx:
            append_events(tx, run_id, [NewEvent(seq=1, journal_seq=None, event=LogWritten(message="hello"))])
            tx.execute(text("UPDATE runs SET device = 'cuda:1' WHERE id = :run"), {"run": run_id})
        to_revision(database, "846c5a1f033a", command.downgrade)
        with database.read() as tx:
            assert "disk_dir" not in tx.execute(text("SELECT * FROM runs")).keys()  # noqa: SIM118
        migrate(database)
        with database.read() as tx:
            assert tx.execute(text("SELECT id, disk_dir, queue_device, knobs FROM runs ORDER BY created_at")).all() == [
                (run_id, None, "cuda:1", "{}"),
                (waiting, None, "cuda:0", "{}"),
            ]
            assert tx.execute(text("SELECT run_id, message FROM events")).all() == [(run_id, "hello")]


def test_migrate_of_a_history_without_texts_and_segments_fills_them(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        ended = add_run(database, RunState.FAILED, name="Ärger", tags=["LoRA"], spec={"offload": {"policy": "lru"}})
        waiting = add_run(database)
        with database.write() as tx:
            update_run(tx, ended, step=7, metrics={"eval/loss": 1.5})
        to_revision(database, "5d0c7be1f2a4", command.downgrade)
        migrate(database)
        with database.read() as tx:
            which = RunFilter(matching=parse_filter("ärger tag:lora eval/loss = 1.5 lru"))
            assert [run.id for run in list_runs(tx, which, limit=9).runs] == [ended]
            rows = tx.execute(text("SELECT run_id, number, first_step, last_step, state FROM segments")).all()
            assert rows == [(ended, 1, 1, 7, "failed")]
        with database.write() as tx:
            update_run(tx, waiting, name="after")
        with database.read() as tx:
            assert list_runs(tx, RunFilter(matching=parse_filter("after")), limit=9).total == 1


def test_migrate_of_an_old_history_packs_its_metrics_as_if_they_were_recorded_now(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        curve = [metrics_event(step, {"a": 1.0 / step, "b": float("nan")}) for step in range(1, 2000)]
        with database.write() as tx:
            record_metrics(tx, run_id, curve)
        tables = [Base.metadata.tables[name] for name in ("metrics", "metric_chunks", "metric_extremes")]
        with database.read() as tx:
            before = [tx.execute(table.select().order_by(*table.primary_key)).all() for table in tables]
        assert [len(rows) for rows in before] == [2 * 1999, 2 * 3, 2 * 3]
        to_revision(database, "5d0c7be1f2a4", command.downgrade)
        migrate(database)
        with database.read() as tx:
            assert [tx.execute(table.select().order_by(*table.primary_key)).all() for table in tables] == before


@pytest.mark.usefixtures("any_database")
def test_migrate_finds_the_eval_data_of_runs_as_their_starts_did(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    with open_store(tmp_path / "home") as database:
        runs = [
            add_run(database, base_dir=str(tmp_path), spec={"data": {"eval_path": named}})
            for named in (None, "link/a.txt", ["b.txt", "/c.txt"])
        ]
        to_revision(database, "f4b92c6e7a13", command.downgrade)
        migrate(database)
        with database.read() as tx:
            found = [get_order(tx, run_id) for run_id in runs]
    assert [order and (order.eval_paths, order.folders) for order in found] == [
        ([], None), ([f"{tmp_path}/real/a.txt"], None), ([f"{tmp_path}/b.txt", "/c.txt"], None),
    ]  # fmt: skip


@pytest.mark.usefixtures("any_database")
def test_migrate_of_a_database_from_a_newer_version_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        with database.write() as tx:
            tx.execute(text("UPDATE alembic_version SET version_num = 'from_2031'"))
        with pytest.raises(DatabaseNewer, match="from_2031"):
            migrate(database)


def test_migrations_are_found_in_a_clone() -> None:
    assert (migrations_dir() / "env.py").is_file()
    assert list((migrations_dir() / "versions").glob("*.py"))
