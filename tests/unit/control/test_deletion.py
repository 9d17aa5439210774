"""Deleting a run: what goes, what stays, and what a crash in the middle leaves."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from horizon_app.contracts.run_state import RunState
from horizon_app.control import deletion as module
from horizon_app.control import last_worker
from horizon_app.control.deletion import Deletion
from horizon_app.control.errors import CheckpointPinned, RunIsLive, RunNotFound, WorkerStillThere
from horizon_app.store.database import Database
from horizon_app.store.runs import get_run, update_run
from tests.support.commands import ROOT
from tests.support.stores import add_run, open_store

BLOCK = 4096


class Home:
    """A home folder with one finished run."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder, self.database = folder, database
        self.runs = folder / "runs"
        self.deletion = Deletion(database, self.runs)
        self.run_id = add_run(database, RunState.FINISHED)
        self.path = self.runs / self.run_id
        (self.path / "checkpoints" / "5").mkdir(parents=True)
        self.weights = self.path / "checkpoints" / "5" / "model.safetensors"
        self.weights.write_bytes(os.urandom(10 * BLOCK))

    @property
    def is_known(self) -> bool:
        with self.database.read() as tx:
            return get_run(tx, self.run_id) is not None


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with open_store(tmp_path / "home") as database:
        yield Home(tmp_path / "home", database)


@pytest.mark.usefixtures("any_database")
def test_delete_frees_the_bytes_that_it_says(home: Home) -> None:
    on_disk = home.weights.stat().st_blocks * 512
    freed = home.deletion.delete(home.run_id)
    assert (freed.freed_bytes, freed.left_bytes) == (on_disk, 0) and on_disk >= 10 * BLOCK
    assert [*home.runs.iterdir()] == [] and not home.is_known


def test_delete_never_follows_a_link_out_of_the_folder(home: Home, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    (home.path / "link").symlink_to(mine)
    (home.path / "checkpoints" / "9").symlink_to(mine)
    (home.path / "to-file").symlink_to(mine / "file")
    home.deletion.delete(home.run_id)
    assert (mine / "file").read_text() == "mine"


def test_delete_of_a_run_whose_folder_is_a_link_removes_the_link_alone(home: Home, tmp_path: Path) -> None:
    home.path.rename(tmp_path / "elsewhere")
    home.path.symlink_to(tmp_path / "elsewhere")
    assert home.deletion.delete(home.run_id).freed_bytes == 0
    assert (tmp_path / "elsewhere" / "checkpoints").is_dir()
    assert [*home.runs.iterdir()] == []


def test_files_with_several_names_count_once_and_those_with_one_elsewhere_not_at_all(
    home: Home, tmp_path: Path
) -> None:
    on_disk = home.weights.stat().st_blocks * 512
    os.link(home.weights, home.path / "again")
    shared = home.path / "shared"
    shared.write_bytes(os.urandom(50 * BLOCK))
    os.link(shared, tmp_path / "kept")
    assert home.deletion.delete(home.run_id).freed_bytes == on_disk
    assert (tmp_path / "kept").stat().st_size == 50 * BLOCK


@pytest.mark.parametrize("state", [RunState.STARTING, RunState.RUNNING, RunState.PAUSED, RunState.STOPPING])
def test_live_run_is_not_deleted(home: Home, state: RunState) -> None:
    run_id = add_run(home.database, state)
    with pytest.raises(RunIsLive, match=state.value):
        home.deletion.delete(run_id)


def test_unknown_run_is_not_deleted(home: Home) -> None:
    with pytest.raises(RunNotFound):
        home.deletion.delete("20260101-000000-abcdef")


def test_pinned_checkpoints_are_asked_for_by_their_steps(home: Home) -> None:
    (home.path / "checkpoints" / "12").mkdir()
    for step in (5, 12):
        (home.path / "checkpoints" / str(step) / "pinned").touch()
    with pytest.raises(CheckpointPinned, match="step 5, 12 are pinned"):
        home.deletion.delete(home.run_id)
    assert home.weights.exists() and home.is_known
    assert home.deletion.delete(home.run_id, pinned_too=True).freed_bytes > 0
    assert not home.is_known


def test_worker_that_does_not_go_keeps_its_folder(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_worker, "LAST_WORDS_S", 0.1)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        with home.database.write() as tx:
            start = psutil.Process(worker.pid).create_time()
            update_run(tx, home.run_id, pid=worker.pid, process_start=start)
        with pytest.raises(WorkerStillThere, match=str(worker.pid)):
            home.deletion.delete(home.run_id)
        assert home.weights.exists()
        worker.kill()
        worker.wait()
        home.deletion.delete(home.run_id)
    assert not home.path.exists()


@pytest.mark.usefixtures("any_database")
def test_deletion_that_the_database_refuses_changes_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(module, "delete_run", refuse)
    with pytest.raises(OSError, match="no space left"):
        home.deletion.delete(home.run_id)
    assert home.weights.exists() and home.is_known


KILLED = """
import os, signal, sys
from pathlib import Path
from horizon_app.control import deletion
from horizon_app.settings import AppSettings
from horizon_app.store.database import open_database

home, run_id, where = sys.argv[1:]
setattr(deletion, where, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
deletion.Deletion(open_database(AppSettings(home=Path(home))), Path(home) / "runs").delete(run_id)
"""


@pytest.mark.parametrize(("where", "survives"), [("delete_run", True), ("_remove", False)])
def test_kill_in_the_middle_leaves_a_whole_run_or_none(home: Home, where: str, survives: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, home.folder, home.run_id, where], cwd=ROOT, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    assert not home.path.exists() and home.is_known == survives
    home.deletion.tidy()
    assert home.weights.exists() == survives
    assert [path.name for path in home.runs.iterdir()] == ([home.run_id] if survives else [])


def test_folder_set_aside_beside_a_newer_one_is_left_alone_until_the_run_goes(home: Home) -> None:
    shutil.copytree(home.path, home.runs / f".deleted-{home.run_id}")
    home.deletion.tidy()
    assert len([*home.runs.iterdir()]) == 2
    home.deletion.delete(home.run_id)
    assert [*home.runs.iterdir()] == []


def test_what_can_not_be_removed_is_told_and_tried_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(module.shutil, "rmtree", refuse)
        freed = home.deletion.delete(home.run_id)
    assert freed.freed_bytes == 0 and freed.left_bytes >= 10 * BLOCK
    assert "Permission denied" in freed.left_in
    assert not home.is_known and not home.path.exists()
    home.deletion.tidy()
    assert [*home.runs.iterdir()] == []


def test_tidy_leaves_what_is_nobodys(home: Home) -> None:
    (home.runs / ".deleted-notes").mkdir()
    home.deletion.tidy()
    assert (home.runs / ".deleted-notes").is_dir()
