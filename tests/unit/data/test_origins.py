"""A batch can name the samples that its sequences hold: by file and line, whatever the order and the packing."""

from pathlib import Path

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.data.dataset import Dataset, load_dataset
from tests.unit.data.conftest import MakeTokenizer, WriteRows

LENGTH = 32


def load(paths: list[Path], tokenizer: Path, *, packing: bool) -> Dataset:
    spec = DataSpec(path=[str(path) for path in paths], sequence_length=LENGTH, packing=packing)
    return load_dataset(spec, paths=paths, tokenizer_dir=tokenizer, cache_dir=tokenizer / "cache")


def test_origins_follow_their_sequences_through_the_shuffle(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    first = write_rows({"text": "aaaa"}, {"text": "bbbb"}, name="first.jsonl")
    second = write_rows({"text": "cccc"}, name="second.jsonl")
    folder = make_tokenizer()
    dataset = load([first, second], folder, packing=False)
    told = {"first.jsonl line 1": "a", "first.jsonl line 2": "b", "second.jsonl line 1": "c"}
    seen: set[str] = set()
    for batch in (next(dataset.source(2).batches(step)) for step in (1, 2, 3)):
        assert len(batch.origins) == len(batch.input_ids) == 2
        for origin, ids in zip(filter(None, batch.origins), batch.input_ids, strict=False):
            token = int(dataset.samples.ids[1]) + "abc".index(told[origin])  # byte tokens: letters follow each other
            assert ids[1:5].tolist() == [token] * 4
            seen.add(origin)
    assert seen == set(told)


def test_origins_skip_blank_lines_and_rows_with_nothing_to_train_on(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    rows = write_rows({"text": ""}, {"text": "two"})
    rows.write_text(rows.read_text() + "\n" + '{"text": "four"}\n')
    dataset = load([rows], make_tokenizer(bos=False, eos=None), packing=False)
    assert set(next(dataset.source(2).batches(1)).origins) == {"rows.jsonl line 2", "rows.jsonl line 4"}


def test_origins_of_a_packed_sequence_name_three_samples_and_count_the_rest(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    dataset = load([write_rows(*({"text": "ab"} for _ in range(5)))], make_tokenizer(), packing=True)
    (origin,) = next(dataset.source(1).batches(1)).origins
    assert origin == "rows.jsonl line 1, rows.jsonl line 2, rows.jsonl line 3 and 2 more"


def test_origins_of_three_packed_samples_name_all(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    dataset = load([write_rows(*({"text": "ab"} for _ in range(3)))], make_tokenizer(), packing=True)
    (origin,) = next(dataset.source(1).batches(1)).origins
    assert origin == "rows.jsonl line 1, rows.jsonl line 2, rows.jsonl line 3"


def test_origins_of_a_long_text_count_its_pieces(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows, tmp_path: Path
) -> None:
    document = tmp_path / "book.txt"
    document.write_text("x" * 70)
    row = write_rows({"text": "short"}, {"text": "y" * 50})
    dataset = load([document, row], make_tokenizer(), packing=False)
    assert set(next(dataset.source(6).batches(1)).origins) == {
        "book.txt piece 1", "book.txt piece 2", "book.txt piece 3", "rows.jsonl line 1", "rows.jsonl line 2 piece 1",
        "rows.jsonl line 2 piece 2",
    }  # fmt: skip


def test_origins_of_a_sequence_that_only_fills_the_batch_are_empty(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    dataset = load([write_rows({"text": "alone"})], make_tokenizer(), packing=False)
    assert next(dataset.source(3).batches(1)).origins == ("rows.jsonl line 1", "", "")
