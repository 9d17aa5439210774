from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.data_view import DataPreview
from horizon_app.data import preview as previews
from horizon_app.data.dataset import load_dataset
from horizon_app.data.preview import preview
from tests.unit.data.conftest import MakeTokenizer, WriteRows

CHAT = {"messages": [{"role": "user", "content": "中?"}, {"role": "assistant", "content": "文."}]}


def look(
    path: Path, tokenizer: Path | None = None, *, whole: bool = False, most_samples: int = 20, **options: Any
) -> DataPreview:
    spec = DataSpec.model_validate({"path": str(path), **options})
    return preview([path], spec, tokenizer_dir=tokenizer, whole=whole, most_samples=most_samples)


def test_preview_with_a_tokenizer_shows_tokens_labels_and_what_is_trained(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    found = look(write_rows(CHAT), make_tokenizer())
    (sample,) = found.samples
    assert (found.format, found.rows, found.used, found.skipped, found.errors) == ("messages", 1, 1, 0, [])
    assert "".join(sample.tokens) == sample.text
    assert sample.trained_spans == ["文.<|im_end|>"]
    assert sample.labels == [i if t else -100 for i, t in zip(sample.ids, sample.trained, strict=True)]
    assert sample.num_tokens == len(sample.tokens) == found.num_tokens
    assert sample.num_trained == sum(sample.trained) == found.num_trained_tokens


def test_preview_has_the_fingerprint_of_a_run_over_the_same_data(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows, tmp_path: Path
) -> None:
    rows, folder = write_rows(CHAT, {"text": "words"}), make_tokenizer()
    spec = DataSpec(path=str(rows), sequence_length=64)
    dataset = load_dataset(spec, paths=[rows], tokenizer_dir=folder, cache_dir=tmp_path / "cache")
    assert look(rows, folder, sequence_length=64).fingerprint == dataset.fingerprint
    assert look(rows, folder, sequence_length=63).fingerprint != dataset.fingerprint


def test_preview_without_a_tokenizer_shows_whose_words_are_trained(write_rows: WriteRows) -> None:
    found = look(write_rows(CHAT, {"prompt": "p", "completion": "c"}))
    assert [sample.trained_spans for sample in found.samples] == [["文."], ["c"]]
    assert found.samples[0].num_tokens is found.used is None


def test_preview_of_bad_rows_tells_them_beside_the_good_ones(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    rows, folder = write_rows(CHAT, {"text": 3}, {"text": "a"}), make_tokenizer()
    found = look(rows, folder)
    assert found.format == "messages+text"
    assert [(error.line, error.field) for error in found.errors] == [(2, "text")]
    assert (len(found.samples), found.bad_rows, found.fingerprint) == (2, 1, None)
    skipping = look(rows, folder, bad_rows="skip")
    assert (skipping.errors, skipping.bad_rows, [w.line for w in skipping.warnings]) == ([], 1, [2])


def test_preview_lists_rows_without_a_trained_token(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    silent = {"messages": CHAT["messages"][:1]}
    found = look(write_rows(*[CHAT] * 9, silent), make_tokenizer(), most_samples=2)
    assert (found.rows, found.used, found.skipped, len(found.samples)) == (10, 9, 1, 2)
    assert [(w.line, w.message) for w in found.warnings] == [(10, "no token to train on")]
    assert "none of the 1 samples" in look(write_rows(silent), make_tokenizer()).errors[0].message


def test_preview_of_much_data_shows_its_beginning(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_rows(*[CHAT] * 5000)
    monkeypatch.setattr(previews, "MOST_CHARACTERS", 10_000)
    monkeypatch.setattr(previews, "MOST_ENCODED", 10_000)
    for folder in (None, make_tokenizer()):
        found = look(rows, folder)
        assert 50 < found.rows < 500
        assert (found.complete, found.fingerprint, found.num_errors) == (False, None, 0)
        assert look(rows, folder, whole=True).rows == 5000


def test_preview_of_what_can_not_be_read_raises_nothing(
    tmp_path: Path, write_rows: WriteRows, make_tokenizer: MakeTokenizer
) -> None:
    assert look(tmp_path / "gone.txt").num_errors == 1
    assert "hold no rows" in look(write_rows()).errors[0].message
    without = look(write_rows(CHAT), make_tokenizer(None))
    assert [error.field for error in without.errors] == ["data.chat_template"]


def test_preview_with_a_tokenizer_that_is_not_there_still_counts_the_rows(
    tmp_path: Path, write_rows: WriteRows
) -> None:
    found = look(write_rows(CHAT, CHAT), tmp_path / "gone")
    assert [error.field for error in found.errors] == ["model.path"]
    assert (found.rows, found.format, found.used) == (2, "messages", None)
