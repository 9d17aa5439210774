"""The checkpoints of a run as they are shown, and their pins. Reads the folders: what is on disk is what counts."""

from collections.abc import Iterable
from pathlib import Path

from horizon_app.contracts.checkpoints import FOLDER, PIN, FoundCheckpoint, best_step, find_checkpoints, whole_ones
from horizon_app.contracts.run_view import Checkpoint
from horizon_app.control.errors import CheckpointNotFound
from horizon_app.store.checkpoints import StoredCheckpoint


def list_checkpoints(run_dir: Path, run_id: str, recorded: Iterable[StoredCheckpoint]) -> list[Checkpoint]:
    """Those that the run has told of or that say that they are its own, in order of their steps."""
    rows = {row.step: row for row in recorded}
    found = {one.step: one for one in _found(run_dir) if one.step in rows or _is_of(one, run_id)}
    best = best_step(manifest for _, manifest in whole_ones(found.values(), run_id))
    shown = [_shown(one, run_id, is_best=one.step == best) for one in found.values()]
    gone = [row for step, row in rows.items() if step not in found]
    shown += [
        Checkpoint(step=row.step, path=row.path, bytes=row.bytes, broken="its folder is not there any more")
        for row in gone
    ]
    return sorted(shown, key=lambda one: one.step)


def last_in_words(run_dir: Path, run_id: str, recorded: Iterable[StoredCheckpoint]) -> str:
    """The newest checkpoint that the disk holds whole, and why a newer one can't be used."""
    listed = list_checkpoints(run_dir, run_id, recorded)
    whole = [one for one in listed if not one.broken]
    if not listed:
        return "no checkpoint"
    words = f"last checkpoint at step {whole[-1].step}" if whole else "no whole checkpoint on disk"
    newest = listed[-1]
    return f"{words} (that of step {newest.step} can't be used: {newest.broken})" if newest.broken else words


def set_pin(run_dir: Path, run_id: str, step: int, *, pinned: bool) -> None:
    """Keep a checkpoint from being rotated away, or no longer. Raises CheckpointNotFound, OSError."""
    one = next((one for one in _found(run_dir) if one.step == step and _is_of(one, run_id)), None)
    if one is None:
        raise CheckpointNotFound(run_id=run_id, step=step)
    mark = one.folder / PIN
    try:
        mark.touch() if pinned else mark.unlink(missing_ok=True)
    except FileNotFoundError as error:  # rotated away in this very moment
        raise CheckpointNotFound(run_id=run_id, step=step) from error


def _found(run_dir: Path) -> list[FoundCheckpoint]:
    try:
        return find_checkpoints(run_dir)
    except OSError:  # a folder that is being deleted
        return []


def _is_of(one: FoundCheckpoint, run_id: str) -> bool:
    return one.manifest is not None and one.manifest.run_id == run_id


def _shown(one: FoundCheckpoint, run_id: str, *, is_best: bool) -> Checkpoint:
    manifest, broken = one.manifest, one.broken
    path = f"{FOLDER}/{one.step}"
    if manifest is None:
        return Checkpoint(step=one.step, path=path, bytes=0, pinned=one.pinned, broken=broken)
    if manifest.run_id != run_id and not broken:
        broken = f"it belongs to run {manifest.run_id}"
    return Checkpoint(
        step=one.step, path=path, bytes=manifest.num_bytes, time=manifest.written_at, eval_loss=manifest.eval_loss,
        nonfinite=manifest.num_nonfinite, best=is_best, pinned=one.pinned, broken=broken,
    )  # fmt: skip
