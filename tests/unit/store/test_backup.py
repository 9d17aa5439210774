"""Backups while others write, and checks of what the database holds."""

import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from horizon_app.contracts.events import LogWritten
from horizon_app.control.recorder import note
from horizon_app.settings import AppSettings
from horizon_app.store.backup import back_up, check_database
from horizon_app.store.errors import BackupRefused, DatabaseDamaged, DatabaseUnavailable
from horizon_app.store.events import events_after
from tests.support.stores import add_run, open_store, settings_of


def test_backup_made_while_a_run_is_recorded_holds_one_moment_of_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "home") as database:
        run_id, done = add_run(database), threading.Event()

        def record() -> None:
            while not done.is_set():
                note(database, run_id, [LogWritten(message="x" * 1000)] * 20)

        recorder = threading.Thread(target=record)
        recorder.start()
        try:
            made = [
                back_up(settings_of(tmp_path / "home"), tmp_path / f"{n}" / "horizon.db") for n in _folders(tmp_path)
            ]
        finally:
            done.set()
            recorder.join()
    assert [backup.runs for backup in made] == [1, 1, 1]
    for backup in made:
        assert sorted(path.name for path in backup.path.parent.iterdir()) == ["horizon.db"]
        with open_store(backup.path.parent) as copy, copy.read() as tx:
            seqs = [event["seq"] for event in events_after(tx, run_id, 0, limit=100_000)]
        assert seqs == list(range(1, len(seqs) + 1))


def _folders(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / f"{number}" for number in range(3)]
    for folder in folders:
        folder.mkdir()
    return folders


def test_backup_leaves_what_is_there_unless_it_is_told_to(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        add_run(database)
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(BackupRefused, match="--force writes over it"):
            back_up(settings_of(tmp_path), tmp_path / "mine.txt")
        assert (tmp_path / "mine.txt").read_text() == "mine"
        assert back_up(settings_of(tmp_path), tmp_path / "mine.txt", overwrite=True).runs == 1
        (tmp_path / "link.db").symlink_to(tmp_path / "horizon.db")
        for target in ("horizon.db", "link.db"):
            with pytest.raises(BackupRefused, match="is the history itself"):
                back_up(settings_of(tmp_path), tmp_path / target, overwrite=True)
        with pytest.raises(BackupRefused, match="is a folder"):
            back_up(settings_of(tmp_path), tmp_path)
        with pytest.raises(OSError, match="No such file"):
            back_up(settings_of(tmp_path), tmp_path / "nowhere" / "b.db")
        assert check_database(settings_of(tmp_path)).problems == []
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_backup_of_postgresql_names_the_command_without_the_password() -> None:
    url = "postgresql+psycopg://horizon:secret@db.example/horizon"
    with pytest.raises(BackupRefused, match=r"pg_dump .* 'postgresql://horizon:\*\*\*@db\.example/horizon'"):
        back_up(AppSettings(database_url=url), Path("backup.db"))


def test_backup_and_check_where_there_is_no_history_make_none(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="no such file"):
        back_up(AppSettings(home=tmp_path), tmp_path / "b.db")
    with pytest.raises(DatabaseUnavailable, match="no such file"):
        check_database(AppSettings(home=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_check_names_damage_and_rows_that_belong_to_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        note(database, run_id, [LogWritten(message="x" * 2000)] * 200)
    with sqlite3.connect(tmp_path / "horizon.db") as other:
        other.execute("UPDATE run_texts SET run_id = 'nobody'")
        other.execute("DROP TRIGGER run_texts_update")
        other.execute("UPDATE run_texts SET name = 'changed behind the index'")
    other.close()
    belongs, words = check_database(settings_of(tmp_path)).problems
    assert "of run_texts belongs to nothing in runs" in belongs and "rebuild" in words
    damaged = (tmp_path / "horizon.db").read_bytes()
    middle = len(damaged) // 2 // 4096 * 4096
    (tmp_path / "horizon.db").write_bytes(damaged[:middle] + b"\xff" * 8192 + damaged[middle + 8192 :])
    with pytest.raises(DatabaseDamaged, match="put a backup in its place"):
        back_up(settings_of(tmp_path), tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()


@pytest.mark.usefixtures("any_database")
def test_check_of_a_whole_history_finds_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        add_run(database, name="中文")
        with database.read() as tx:
            revision = tx.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    health = check_database(settings_of(tmp_path))
    assert (health.runs, health.problems, health.revision) == (1, [], revision)
