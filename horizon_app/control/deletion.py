"""Deleting a run: its row and its folder go together, whatever happens in between.

The folder is set aside by a new name while the row is held, then the row goes for good, then the folder. What a crash
leaves is a folder set aside: without its row it is removed at the next start, with its row it is put back.
"""

import contextlib
import logging
import os
import shutil
from pathlib import Path

from horizon_app.contracts.checkpoints import find_checkpoints
from horizon_app.contracts.ids import is_run_id
from horizon_app.contracts.run_state import LIVE
from horizon_app.contracts.run_view import Freed
from horizon_app.control.errors import CheckpointPinned, RunIsLive, WorkerStillThere
from horizon_app.control.last_worker import living_worker, wait_for_last_worker
from horizon_app.control.lifecycle import locked_run, read_run
from horizon_app.control.run_folder import RunFolder
from horizon_app.store.database import Database, Transaction
from horizon_app.store.runs import StoredRun, delete_run, get_run

_log = logging.getLogger(__name__)
_ASIDE = ".deleted-"
_TRIES = 3


class Deletion:
    """Removes runs from a home folder."""

    def __init__(self, database: Database, runs_dir: Path) -> None:
        self._database = database
        self._runs_dir = runs_dir

    def delete(self, run_id: str, *, pinned_too: bool = False) -> Freed:
        """Remove a run that is not live, with its folder and all that lies in it.

        Raises RunNotFound, RunIsLive, CheckpointPinned unless `pinned_too`, WorkerStillThere, OSError.
        """
        folder = RunFolder(self._runs_dir, run_id)
        with self._database.read() as tx:
            run = _deletable(read_run(tx, run_id), folder, pinned_too=pinned_too)
        wait_for_last_worker(run, folder)
        aside = self._runs_dir / f"{_ASIDE}{run_id}"
        try:
            with self._database.write() as tx:
                run = _deletable(locked_run(tx, run_id), folder, pinned_too=pinned_too)
                if (pid := living_worker(run, folder)) is not None:  # it was resumed, and has ended again, meanwhile
                    raise WorkerStillThere(run_id=run_id, pid=pid)
                if folder.path.exists() and aside.exists():  # of an earlier deletion that came to no end
                    _remove(aside)
                _move(folder.path, aside)
                delete_run(tx, run_id)
        except BaseException:
            with self._database.read() as tx:
                settled = self._settle(tx, aside)
            if not settled:
                _remove(aside)
            raise
        freed = _remove(aside)
        _log.info("run %s was deleted, %d bytes freed", run_id, freed.freed_bytes)
        return freed

    def tidy(self) -> None:
        """Finish or undo the deletions that a crash has interrupted."""
        for aside in sorted(self._runs_dir.glob(f"{_ASIDE}*")):
            with self._database.write() as tx:  # a deletion that is under way is the one writer, or has committed
                settled = self._settle(tx, aside)
            if not settled:
                _remove(aside)

    def _settle(self, tx: Transaction, aside: Path) -> bool:
        """Put a folder back whose run is still there; False where it is nobody's and has to go."""
        run_id = aside.name.removeprefix(_ASIDE)
        if not is_run_id(run_id) or not os.path.lexists(aside):
            return True
        if get_run(tx, run_id) is None:
            return False
        place = self._runs_dir / run_id
        if place.exists():
            _log.warning("%s is of a deletion that came to no end, but %s is there: left alone", aside, place)
            return True
        _move(aside, place)
        _log.warning("%s is back: its deletion was interrupted before it counted", place)
        return True


def _deletable(run: StoredRun, folder: RunFolder, *, pinned_too: bool) -> StoredRun:
    if run.state in LIVE:
        raise RunIsLive(run_id=run.id, state=run.state, action="deleted")
    pinned = [] if pinned_too else [one.step for one in find_checkpoints(folder.path) if one.pinned]
    if pinned:
        raise CheckpointPinned(run_id=run.id, steps=pinned)
    return run


def _move(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # a run that never started has no folder
        source.rename(target)


def _remove(folder: Path) -> Freed:
    """Delete a folder, never what a link in it leads to; what can't be removed is tried again at the next start."""
    if folder.is_symlink():
        folder.unlink()
        return Freed(freed_bytes=0)
    before, left, cause = _bytes_below(folder), 0, ""
    for _ in range(_TRIES):  # a process that is just going may put a file into a folder that was empty a moment ago
        try:
            shutil.rmtree(folder)
            break
        except FileNotFoundError:
            break
        except OSError as error:
            left, cause = _bytes_below(folder), f"{error.strerror or error}: {error.filename}"
    else:
        _log.warning("%s could not be removed, %d bytes are left: %s", folder, left, cause)
        return Freed(freed_bytes=max(0, before - left), left_bytes=left, left_in=f"{folder}: {cause}")
    return Freed(freed_bytes=before)


def _bytes_below(folder: Path) -> int:
    """What the disk gains when all this goes: a file with several names counts once, where all of them are here."""
    sizes: dict[tuple[int, int], int] = {}
    names_elsewhere: dict[tuple[int, int], int] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                found = os.lstat(os.path.join(root, name))  # noqa: PTH118 - thousands of files
            except FileNotFoundError:
                continue
            file = found.st_dev, found.st_ino
            sizes[file] = found.st_blocks * 512
            names_elsewhere[file] = names_elsewhere.get(file, found.st_nlink) - 1
    return sum(size for file, size in sizes.items() if names_elsewhere[file] <= 0)
