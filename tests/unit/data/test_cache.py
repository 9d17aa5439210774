"""Tokenised data is read back where nothing has changed, and never where anything has."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.data import cache as caches
from horizon_app.data import dataset as datasets
from horizon_app.data.dataset import Dataset, load_dataset
from horizon_app.data.errors import DataError
from horizon_app.data.samples import SampleWriter
from horizon_app.data.sequences import TokenSequence
from tests.unit.data.conftest import MakeTokenizer


class Counted:
    """Loads data, and counts how often it was tokenised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path, folder: Path) -> None:
        self.made = 0
        self.path, self.folder, self.cache = path, folder, path.parent / "cache"
        tokenise = datasets._tokenise

        def counting(*arguments: Any) -> Any:
            self.made += 1
            return tokenise(*arguments)

        monkeypatch.setattr(datasets, "_tokenise", counting)

    def load(self, **options: Any) -> Dataset:
        spec = DataSpec.model_validate({"path": str(self.path), "sequence_length": 32, **options})
        return load_dataset(spec, paths=[self.path], tokenizer_dir=self.folder, cache_dir=self.cache)

    def entries(self) -> list[Path]:
        return sorted(self.cache.iterdir())


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_tokenizer: MakeTokenizer) -> Counted:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(20)))
    return Counted(monkeypatch, path, make_tokenizer())


def test_same_data_is_tokenised_once_whatever_does_not_touch_its_tokens(counted: Counted) -> None:
    first = counted.load()
    again = counted.load(seed=3, shuffle=False, packing=False, eval_fraction=0.3)
    assert counted.made == 1
    assert np.array_equal(first.samples.ids, again.samples.ids)
    assert isinstance(first.samples.ids, np.memmap)
    assert first.warnings == again.warnings


@pytest.mark.parametrize("option", [{"sequence_length": 16}, {"train_on": "all"}, {"chat_template": "chatml"}])
def test_options_that_decide_the_tokens_make_an_entry_of_their_own(option: dict[str, Any], counted: Counted) -> None:
    counted.load()
    counted.load(**option)
    assert (counted.made, len(counted.entries())) == (2, 2)


def test_file_that_changes_but_keeps_size_and_time_is_tokenised_anew(counted: Counted) -> None:
    before = counted.load()
    time = counted.path.stat().st_mtime_ns
    counted.path.write_text(counted.path.read_text().replace("row 3", "ROW 3"))
    os.utime(counted.path, ns=(time, time))
    after = counted.load()
    assert counted.made == 2
    assert before.samples.ids.shape == after.samples.ids.shape
    assert not np.array_equal(before.samples.ids, after.samples.ids)
    assert before.fingerprint != after.fingerprint


def test_tokenizer_that_changes_is_used_anew(counted: Counted) -> None:
    counted.load()
    path = counted.folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"id":4', '"id": 4', 1) + "\n")
    counted.load()
    assert counted.made == 2


@pytest.mark.parametrize("damage", ["cut", "no facts"])
def test_entry_that_is_not_whole_is_made_again(damage: str, counted: Counted) -> None:
    right = np.array(counted.load().samples.ids)
    (entry,) = counted.entries()
    if damage == "cut":
        (entry / "ids").write_bytes((entry / "ids").read_bytes()[:-4])
    else:
        (entry / "facts.json").unlink()
    assert np.array_equal(counted.load().samples.ids, right)
    assert counted.made == 2


def test_file_that_changes_while_it_is_read_is_refused_and_nothing_is_kept(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = SampleWriter.add

    def editing(writer: SampleWriter, sequence: TokenSequence) -> None:
        counted.path.write_text(counted.path.read_text() + '{"text": "one more"}\n')
        monkeypatch.setattr(SampleWriter, "add", add)
        add(writer, sequence)

    monkeypatch.setattr(SampleWriter, "add", editing)
    with pytest.raises(DataError, match="changed while it was read"):
        counted.load()
    assert counted.entries() == []
    assert counted.load().num_samples == 21


def test_disk_that_is_full_is_told_and_nothing_half_is_left(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(writer: SampleWriter, sequence: TokenSequence) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SampleWriter, "add", full)
    with pytest.raises(DataError, match=r"is full \(\d+ MiB free\)"):
        counted.load()
    assert counted.entries() == []


def test_folder_that_can_not_be_written_is_told_with_its_name(counted: Counted) -> None:
    counted.cache.write_text("a file in the way")
    with pytest.raises(DataError, match="tokenised data can't be written to"):
        counted.load()


def test_oldest_entries_go_where_all_take_too_much(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    counted.load()
    (old,) = counted.entries()
    os.utime(old, (1, 1))
    counted.load(sequence_length=31)
    size = sum(file.stat().st_size for file in old.iterdir())
    monkeypatch.setattr(caches, "MOST_BYTES", size * 5 // 2)
    kept = counted.load(sequence_length=30)
    assert old not in counted.entries()
    assert len(counted.entries()) == 2
    assert kept.num_samples == 20


def test_data_with_problems_leaves_nothing_behind(counted: Counted) -> None:
    counted.path.write_text('{"text": "a"}\n{"text": 3}\n')
    with pytest.raises(DataError, match="text is a number"):
        counted.load()
    assert counted.entries() == []
