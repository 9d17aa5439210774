"""What is told of the checkpoints of a run whose worker has gone: the disk decides, not what was told before."""

import hashlib
from pathlib import Path

import pytest

from horizon_app.contracts.checkpoints import FOLDER, MANIFEST, CheckpointFile, CheckpointManifest
from horizon_app.control.checkpoints import last_in_words
from horizon_app.store.checkpoints import StoredCheckpoint

CONTENT = b"weights"


def write_checkpoint(run_dir: Path, step: int) -> Path:
    folder = run_dir / FOLDER / str(step)
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(CONTENT)
    file = CheckpointFile(bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    manifest = CheckpointManifest(
        run_id="r", step=step, total_steps=9, data_fingerprint="f", files={"model.safetensors": file}
    )
    (folder / MANIFEST).write_text(manifest.model_dump_json())
    return folder


def told(*steps: int) -> list[StoredCheckpoint]:
    return [StoredCheckpoint(step=step, path=f"{FOLDER}/{step}", bytes=len(CONTENT)) for step in steps]


def test_checkpoint_that_the_worker_came_to_write_but_not_to_tell_of_counts(tmp_path: Path) -> None:
    for step in (2, 4):
        write_checkpoint(tmp_path, step)
    assert last_in_words(tmp_path, "r", told(2)) == "last checkpoint at step 4"


def test_checkpoint_that_was_told_of_and_is_gone_does_not_count(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 2)
    assert last_in_words(tmp_path, "r", told(2, 4)) == (
        "last checkpoint at step 2 (that of step 4 can't be used: its folder is not there any more)"
    )


def test_checkpoint_that_is_cut_short_does_not_count(tmp_path: Path) -> None:
    (write_checkpoint(tmp_path, 4) / "model.safetensors").write_bytes(CONTENT[:3])
    assert last_in_words(tmp_path, "r", told(4)) == (
        "no whole checkpoint on disk (that of step 4 can't be used: model.safetensors has 3 bytes instead of 7)"
    )


@pytest.mark.parametrize("exists", [True, False])
def test_run_that_saved_nothing_has_no_checkpoint(exists: bool, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    if exists:
        run_dir.mkdir()
    assert last_in_words(run_dir, "r", []) == "no checkpoint"
