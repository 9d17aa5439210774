"""The checkpoints of a run: each written whole or not at all, the oldest removed. Knows nothing of what is in them."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from horizon_app.worker.durable_files import sync, sync_tree


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenCheckpoint:
    """A checkpoint folder that is complete on disk."""

    step: int
    path: str
    """Relative to the run's folder."""
    num_bytes: int


class CheckpointFolder:
    """RUN_DIR/checkpoints, with one folder a step."""

    def __init__(self, run_dir: Path, keep: int) -> None:
        self._folder = run_dir / "checkpoints"
        self._keep = keep

    def write(self, step: int, save: Callable[[Path], int]) -> WrittenCheckpoint:
        """Have `save` fill a folder, bring it to the disk, then give it its name; raises what `save` raises."""
        self._folder.mkdir(exist_ok=True)  # not its parents: a deleted run must not come back
        partial = self._folder / f".{step}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir()
            num_bytes = save(partial)
            sync_tree(partial)
            _replace_folder(partial, self._folder / str(step))
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # there only where something above failed
        return WrittenCheckpoint(step=step, path=f"{self._folder.name}/{step}", num_bytes=num_bytes)

    def remove_oldest(self) -> list[int]:
        """Remove all but the last `keep` checkpoints; gives the steps of those that went."""
        steps = sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdigit())
        gone = steps[: -self._keep]
        for step in gone:
            # Renamed first: a reader, or a crash in between, never meets a checkpoint with half its files.
            leaving = (self._folder / str(step)).rename(self._folder / f".{step}.removed")
            shutil.rmtree(leaving, ignore_errors=True)
        return gone


def _replace_folder(new: Path, place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    new.rename(place)
    sync(place.parent)
