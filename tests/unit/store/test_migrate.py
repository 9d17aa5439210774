"""Models and migrations agree; a database is brought up to date once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import text

from horizon_app.contracts.events import LogWritten, metrics_event
from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.contracts.run_state import RunState
from horizon_app.control.lifecycle import change_state
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database, open_database
from horizon_app.store.errors import DatabaseNewer
from horizon_app.store.events import NewEvent, append_events
from horizon_app.store.metrics import record_metrics
from horizon_app.store.migrate import migrate, migrations_dir
from horizon_app.store.run_list import RunFilter, list_runs
from horizon_app.store.runs import get_order, update_run
from horizon_app.store.tables import RUN_TEXT_INDEX, Base
from tests.support.postgres import PostgresServer
from tests.support.stores import add_run, open_store


def to_revision(database: Database, revision: str, way: Callable[[Config, str], None]) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()))
    with database.write(alters_tables=True) as tx:
        config.attributes["connection"] = tx
        way(config, revision)


def is_of_the_models(name: str | None, _kind: str, _parents: object) -> bool:
    """All but the indexes of words: SQLite keeps its in tables of its own, PostgreSQL has one where it may."""
    return name is None or not name.startswith((RUN_TEXT_INDEX, "ix_run_texts_words"))


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


LISTS = [Base.metadata.tables[name] for name in ("run_tags", "spec_values", "run_metrics")]


@pytest.mark.usefixtures("any_database")
def test_migrate_of_a_history_without_values_lists_them_as_if_its_runs_were_made_now(tmp_path: Path) -> None:
    spec = {
        "name": "n", "offload": {"host_memory": "1.5GiB", "disk_path": None, "share_device": True, "device": "CPU"},
        "training": {"betas": [0.9, 0.95], "learning_rate": 2e-5, "seed": 7}, "samples": {"prompts": ["Grüße"]},
    }  # fmt: skip
    with open_store(tmp_path) as database:
        ended = add_run(database, RunState.RUNNING, tags=["LoRA", "lora", "Straße"], spec=spec)
        add_run(database, RunState.RUNNING, tags=["v1"])
        with database.write() as tx:
            update_run(tx, ended, metrics={"eval/loss": 1.5, "time/step": None})
            change_state(tx, ended, RunState.FINISHED, who="test")
        before = everything_listed(database)
        assert [len(rows) for rows in before] == [3, 7, 1]
        to_revision(database, "f4b92c6e7a13", command.downgrade)
        migrate(database)
        assert everything_listed(database) == before
        with database.read() as tx:
            listed = tx.execute(text("SELECT metrics_listed FROM runs ORDER BY created_at")).scalars()
            assert [bool(one) for one in listed] == [True, False]


def everything_listed(database: Database) -> list[Any]:
    with database.read() as tx:
        return [tx.execute(table.select().order_by(*table.primary_key)).all() for table in LISTS]


@pytest.mark.postgresql
def test_words_have_an_index_on_postgresql_where_the_extension_may_be_made(postgres: PostgresServer) -> None:
    with postgres.connect(postgres.url("postgres")) as admin:
        admin.execute("CREATE ROLE plain LOGIN")
        admin.execute("CREATE DATABASE plain_history")
    with postgres.connect(postgres.url("plain_history")) as admin:
        admin.execute("GRANT ALL ON SCHEMA public TO plain")
    asked = "SELECT count(*) FROM pg_indexes WHERE indexname = 'ix_run_texts_words'"
    for url, indexes in (
        (postgres.new_database(), 1),
        (postgres.url("plain_history").replace("horizon@", "plain@"), 0),
    ):
        database = open_database(AppSettings(database_url=url))
        migrate(database)
        found = add_run(database, name="Grüße", notes="the disk was full")
        with database.read() as tx:
            assert tx.execute(text(asked)).scalar_one() == indexes
            for words in ("grüß", "disk was", "fu"):
                page = list_runs(tx, RunFilter(matching=parse_filter(f'"{words}"')), limit=9)
                assert [run.id for run in page.runs] == [found]
        database.close()


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
