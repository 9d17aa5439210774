import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from horizon_app.contracts import checkpoints as contract
from horizon_app.contracts.checkpoints import BROKEN, MANIFEST, PIN, find_checkpoints, look_at
from horizon_app.worker import checkpoints as checkpoints_module
from horizon_app.worker.checkpoints import CheckpointFolder, CheckpointNotWritten, Facts, SearchStopped
from tests.support.fake_engine import FakeSnapshot, write_fake_model

RUN = "20260101-000000-aaaaaa"


class Folder:
    """The checkpoints of a run, and what was warned of."""

    def __init__(self, run_dir: Path, *, keep: int = 3, run_id: str = RUN) -> None:
        self.run_dir = run_dir
        self.warnings: list[str] = []
        self.checkpoints = CheckpointFolder(run_dir, run_id, keep, self.warnings.append)

    def write(
        self, step: int, *, eval_loss: float | None = None, bad: int = 0,
        save: Callable[[Path], None] = write_fake_model,
    ) -> Path:  # fmt: skip
        facts = Facts(step=step, total_steps=100, data_fingerprint="f", eval_loss=eval_loss, texts={"spec.json": b"{}"})
        snapshot = FakeSnapshot(save, step, nonfinite={"w": bad} if bad else {})
        path, manifest = self.checkpoints.write(facts, snapshot)
        assert (manifest.step, manifest.run_id, manifest.eval_loss) == (step, self.checkpoints._run_id, eval_loss)
        return self.run_dir / path

    def save_and_rotate(self, step: int, *, eval_loss: float | None = None, bad: int = 0) -> list[int]:
        self.write(step, eval_loss=eval_loss, bad=bad)
        return self.checkpoints.rotate()

    @property
    def names(self) -> list[str]:
        """Everything that lies there."""
        return sorted(path.name for path in (self.run_dir / "checkpoints").iterdir())

    @property
    def newest(self) -> int | None:
        """The step that a run would go on from."""
        found = self.checkpoints.newest_usable()
        return None if found is None else found[1].step


def test_checkpoint_when_written_has_its_name_and_a_manifest_of_all_files(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = folder.write(7)
    manifest = look_at(path).manifest
    assert manifest is not None
    assert folder.names == ["7"]
    assert {*manifest.files, MANIFEST} == {file.name for file in path.iterdir()}
    assert all((path / name).stat().st_size == file.bytes for name, file in manifest.files.items())
    assert manifest.num_bytes == sum(file.stat().st_size for file in path.iterdir() if file.name != MANIFEST)


def test_checkpoint_whose_writing_fails_leaves_nothing_and_says_where_and_how_much(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(bytes(10))
        raise OSError(28, "No space left on device")

    folder = Folder(tmp_path)
    folder.write(1)
    with pytest.raises(CheckpointNotWritten) as failed:
        folder.write(2, save=fails)
    text = str(failed.value)
    assert text.startswith(f"{tmp_path / 'checkpoints' / '2'}: No space left on device; it needs about 66 bytes, ")
    assert "the checkpoint of step 1 is whole; free some space, then resume the run" in text
    assert folder.names == ["1"]


def test_checkpoint_without_room_is_refused_before_a_byte_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    folder.write(1)
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(checkpoints_module.shutil, "disk_usage", lambda _path: usage)

    def never(_folder: Path) -> None:
        raise AssertionError("written although there is no room")

    with pytest.raises(CheckpointNotWritten, match=r"needs 4,194,370 bytes, 1,000 are free there; the checkpoint of"):
        folder.write(2, save=never)
    assert folder.names == ["1"]


def test_checkpoint_replaces_what_a_killed_worker_left(tmp_path: Path) -> None:
    for name in (".4.partial", ".2.removed"):
        (tmp_path / "checkpoints" / name / "inner").mkdir(parents=True)
    folder = Folder(tmp_path)
    folder.checkpoints.tidy()
    assert folder.names == []
    (tmp_path / "checkpoints" / ".4.partial").mkdir()
    (tmp_path / "checkpoints" / ".4.partial" / "stray").write_text("x")
    assert not (folder.write(4) / "stray").exists()
    assert folder.names == ["4"]


def test_checkpoint_of_a_deleted_run_does_not_bring_its_folder_back(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Folder(tmp_path / "gone").write(1)
    assert not (tmp_path / "gone").exists()


# -- rotation


def test_checkpoints_over_the_limit_lose_the_oldest_by_number(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=2)
    gone = [folder.save_and_rotate(step) for step in (8, 9, 10, 100)]
    assert gone == [[], [], [8], [9]]
    assert folder.names == ["10", "100"]


@pytest.mark.parametrize(("keep", "left"), [(1, ["1", "5"]), (2, ["1", "4", "5"])])
def test_checkpoint_with_the_lowest_eval_loss_stays_beside_the_newest(
    keep: int, left: list[str], tmp_path: Path
) -> None:
    folder = Folder(tmp_path, keep=keep)
    for step in range(1, 6):
        folder.save_and_rotate(step, eval_loss=float(step))
        assert {"1", str(step)} <= set(folder.names)
    assert folder.names == left


def test_checkpoint_that_becomes_the_best_lets_the_best_before_go(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=1)
    gone = [folder.save_and_rotate(step, eval_loss=loss) for step, loss in ((1, 2.0), (2, 3.0), (3, 1.0), (4, None))]
    assert gone == [[], [], [1, 2], []]
    assert folder.names == ["3", "4"]


def test_checkpoint_that_is_pinned_is_never_rotated_away(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=1)
    (folder.write(1) / PIN).touch()
    assert [folder.save_and_rotate(step) for step in (2, 3)] == [[], [2]]
    (tmp_path / "checkpoints" / "1" / PIN).unlink()
    assert folder.save_and_rotate(4) == [1, 3]


@pytest.mark.parametrize("keep", [1, 2])
def test_folders_that_the_run_did_not_make_are_left_alone(keep: int, tmp_path: Path) -> None:
    Folder(tmp_path, run_id="20250101-000000-bbbbbb").write(1000)
    for name in ("500", "3.tmp", "notes", "007"):
        (tmp_path / "checkpoints" / name).mkdir()
    foreign = sorted(["1000", "500", "3.tmp", "notes", "007"])
    folder = Folder(tmp_path, keep=keep)
    for step in (1, 2, 3, 4):
        folder.save_and_rotate(step)
        assert set(foreign) <= set(folder.names)
        assert folder.newest == step, "a higher number of another run does not win"
    assert folder.names == sorted([*foreign, *(str(step) for step in range(5 - keep, 5))])


def test_folder_of_others_in_the_way_of_a_checkpoint_is_set_aside_and_not_removed(tmp_path: Path) -> None:
    other = Folder(tmp_path, run_id="20250101-000000-bbbbbb").write(6)
    kept = (other / MANIFEST).read_text()
    folder = Folder(tmp_path)
    folder.write(6)
    assert folder.names == ["6", "6.set-aside-1"]
    assert (tmp_path / "checkpoints" / "6.set-aside-1" / MANIFEST).read_text() == kept
    assert folder.newest == 6
    assert "6.set-aside-1" in folder.warnings[0]


def test_checkpoint_with_nan_never_replaces_a_good_one(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=1)
    folder.write(2)
    assert folder.save_and_rotate(4, bad=3) == []
    assert folder.save_and_rotate(6, bad=5) == [4]
    assert folder.names == ["2", "6"]
    assert folder.newest == 2
    assert any("6 is skipped: 5 of its values are not finite (w)" in warning for warning in folder.warnings)
    assert folder.save_and_rotate(8) == [2, 6]


def test_checkpoints_of_a_model_that_began_with_nan_rotate_as_usual(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=2)
    assert [folder.save_and_rotate(step, bad=32) for step in (2, 4, 6)] == [[], [], [2]]
    assert folder.newest == 6
    assert folder.warnings == []


# -- damage: each mode is one that a kill, a full disk or a hand can leave behind


def cut(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    path.write_bytes(path.read_bytes()[:32])


def emptied(checkpoint: Path) -> None:
    for path in checkpoint.glob("*.json"):
        path.write_bytes(b"")


def without_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).unlink()


def without_a_file(checkpoint: Path) -> None:
    (checkpoint / "config.json").unlink()


def with_a_flipped_bit(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)


def moved(checkpoint: Path) -> None:
    shutil.move(checkpoint, checkpoint.with_name("9"))


def with_a_linked_file(folder: Path) -> None:
    """To the very same bytes: they may be others tomorrow."""
    (folder / "model.safetensors").rename(folder.parent.parent / "elsewhere")
    (folder / "model.safetensors").symlink_to("../../elsewhere")


def linked(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


DAMAGE: dict[Callable[[Path], None], str] = {
    cut: "model.safetensors has 32 bytes instead of 4164",
    emptied: "manifest.json can't be read: Invalid JSON",
    without_manifest: "manifest.json is missing",
    without_a_file: "config.json is missing",
    with_a_flipped_bit: "model.safetensors holds other bytes than were written",
    moved: "it lies at step 9, but its manifest says step 6",
    with_a_linked_file: "model.safetensors is a link, to ",
    linked: "6 is a link, to elsewhere: put the file or folder itself there",
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damaged_newest_checkpoint_is_skipped_with_a_warning(damage: Callable[[Path], None], tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(4)
    damage(folder.write(6))
    for _ in range(2):  # and again: it is no loop of failures
        assert folder.newest == 4
        assert DAMAGE[damage] in folder.warnings[-1]
    broken = [one for one in find_checkpoints(tmp_path) if one.broken]
    assert len(broken) == 1
    assert DAMAGE[damage] in broken[0].broken


def test_damaged_checkpoint_makes_way_when_its_step_is_saved_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(4)
    with_a_flipped_bit(folder.write(6))
    assert folder.newest == 4
    assert not (folder.write(6) / BROKEN).exists()
    assert folder.newest == 6
    assert folder.names == ["4", "6"]


def test_damaged_checkpoints_do_not_count_among_those_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=2)
    folder.write(2)
    cut(folder.write(4))
    assert folder.save_and_rotate(6) == [4]
    assert folder.names == ["2", "6"]


def test_search_that_is_to_stop_ends_between_two_parts_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    path = folder.write(4)
    (path / "model.safetensors").write_bytes(bytes((path / "model.safetensors").stat().st_size))
    monkeypatch.setattr(contract, "_READ_BYTES", 1)
    asked = iter([False] * 3)
    with pytest.raises(SearchStopped):
        folder.checkpoints.newest_usable(lambda: next(asked, True))
    assert not (path / BROKEN).exists()
    assert folder.newest is None, "read to its end, it is damaged"


def test_copy_beside_a_checkpoint_is_ignored_by_its_name(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    written = folder.write(4)
    shutil.copytree(written, written.with_name("5.tmp"))
    assert folder.newest == 4
    assert [one.step for one in find_checkpoints(tmp_path)] == [4]


def test_manifest_that_names_files_outside_is_no_manifest(tmp_path: Path) -> None:
    written = Folder(tmp_path).write(4)
    content = json.loads((written / MANIFEST).read_text())
    content["files"]["../../journal.jsonl"] = content["files"]["config.json"]
    (written / MANIFEST).write_text(json.dumps(content))
    assert "no path inside a checkpoint" in look_at(written).broken
