from pathlib import Path

import pytest

from horizon_app.worker.checkpoints import CheckpointFolder
from tests.support.fake_engine import write_fake_model


def names(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / "checkpoints").iterdir())


def test_checkpoint_when_written_has_its_name_and_bytes(tmp_path: Path) -> None:
    written = CheckpointFolder(tmp_path, keep=3).write(7, write_fake_model)
    assert (written.step, written.path, written.num_bytes) == (7, "checkpoints/7", 66)
    assert names(tmp_path) == ["7"]
    assert (tmp_path / written.path / "config.json").exists()


def test_checkpoint_whose_writing_fails_leaves_nothing(tmp_path: Path) -> None:
    def fails(folder: Path) -> int:
        (folder / "model.safetensors").write_bytes(bytes(10))
        raise OSError(28, "No space left on device")

    folder = CheckpointFolder(tmp_path, keep=3)
    folder.write(1, write_fake_model)
    with pytest.raises(OSError, match="No space left"):
        folder.write(2, fails)
    assert names(tmp_path) == ["1"]


def test_checkpoint_replaces_what_a_killed_worker_left_half_written(tmp_path: Path) -> None:
    left = tmp_path / "checkpoints" / ".4.partial"
    left.mkdir(parents=True)
    (left / "stray").write_text("x")
    CheckpointFolder(tmp_path, keep=3).write(4, write_fake_model)
    assert names(tmp_path) == ["4"]
    assert not (tmp_path / "checkpoints" / "4" / "stray").exists()


def test_checkpoints_over_the_limit_lose_the_oldest_by_number(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    for step in (2, 10, 9):
        folder.write(step, write_fake_model)
    assert folder.remove_oldest() == [2]
    assert names(tmp_path) == ["10", "9"]


def test_checkpoint_of_a_deleted_run_does_not_bring_its_folder_back(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        CheckpointFolder(tmp_path / "gone", keep=2).write(1, write_fake_model)
    assert not (tmp_path / "gone").exists()
