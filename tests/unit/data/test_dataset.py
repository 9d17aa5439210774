import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horizon_app.contracts.confinement import LeadsOut, confined_to
from horizon_app.contracts.data_spec import DataSpec
from horizon_app.data.batches import IGNORE, Batch
from horizon_app.data.dataset import Dataset, load_dataset
from horizon_app.data.errors import DataError
from tests.unit.data.conftest import MakeTokenizer, WriteRows


def load(path: Path, tokenizer: Path, **options: Any) -> Dataset:
    spec = DataSpec.model_validate({"path": str(path), "sequence_length": 32, **options})
    return load_dataset(spec, paths=[path], tokenizer_dir=tokenizer, cache_dir=tokenizer / "cache")


def chat(answer: str, question: str = "q") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def batch(dataset: Dataset, size: int, step: int = 1) -> Batch:
    return next(dataset.source(size).batches(step))


def samples_of(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """Ids and labels of every sample and every padding, cut where positions restart."""
    found: list[tuple[list[int], list[int]]] = []
    for ids, labels, positions in zip(batch.input_ids, batch.labels, batch.position_ids, strict=True):
        borders = [*np.flatnonzero(positions == 0).tolist(), len(positions)]
        for start, end in pairwise(borders):
            assert positions[start:end].tolist() == list(range(end - start))
            found.append((ids[start:end].tolist(), labels[start:end].tolist()))
    return found


def test_packed_rows_keep_every_sample_whole_with_its_own_positions_and_no_first_label(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    texts = ["a" * n for n in (20, 9, 5, 17, 3)]  # 22, 11, 7, 19 and 5 tokens with both marks
    dataset = load(write_rows(*({"text": text} for text in texts)), make_tokenizer())
    found = batch(dataset, dataset.num_sequences)
    assert found.input_ids.shape == found.labels.shape == found.position_ids.shape == (dataset.num_sequences, 32)
    assert found.input_ids.dtype == found.labels.dtype == found.position_ids.dtype == np.int64
    assert dataset.num_sequences == 3  # first fit: 22 + 7, 11 + 19, 5
    padding = [(ids, labels) for ids, labels in samples_of(found) if set(ids) == {2}]
    whole = [(ids, labels) for ids, labels in samples_of(found) if set(ids) != {2}]
    assert sorted(len(ids) for ids, _ in whole) == [5, 7, 11, 19, 22]
    for ids, labels in whole:
        assert ids[0] == 0
        assert ids[-1] == 1
        assert labels == [IGNORE, *ids[1:]]
    assert all(set(labels) == {IGNORE} for _, labels in padding)
    assert found.num_samples == dataset.num_samples == 5
    assert dataset.num_tokens == 64
    assert found.num_trained_tokens == dataset.num_trained_tokens == 59


def test_rows_without_packing_hold_one_sample_each(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    rows = write_rows({"text": "one"}, {"text": "two"})
    dataset = load(rows, make_tokenizer(), packing=False)
    assert dataset.num_sequences == 2
    assert batch(dataset, 2).num_samples == 2


def test_text_longer_than_a_sequence_is_cut_into_pieces_that_together_are_all_of_it(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    text = "".join(chr(33 + n % 90) for n in range(100))
    dataset = load(write_rows({"text": text}), make_tokenizer(), packing=False)
    ids = dataset.samples.ids.tolist()
    assert [len(ids), ids[0], ids[-1], ids.count(1)] == [102, 0, 1, 1]
    assert dataset.samples.lengths.tolist() == [32, 32, 32, 6]
    assert dataset.num_trained_tokens == 102 - 4
    assert dataset.warnings == []


def test_text_whose_last_piece_would_be_one_token_still_trains_it(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    dataset = load(write_rows({"text": "a" * 31}), make_tokenizer())  # 33 tokens
    last = dataset.samples.ids[dataset.samples.starts[-2] :].tolist()
    assert last[-1] == 1
    assert dataset.samples.trained[-1]
    assert dataset.skipped == 0


def test_text_of_a_tokenizer_that_ends_texts_itself_gets_no_second_end(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    folder = make_tokenizer()
    content = json.loads((folder / "tokenizer.json").read_text())
    end = {"id": "</s>", "ids": [1], "tokens": ["</s>"]}
    content["post_processor"]["single"].append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    content["post_processor"]["special_tokens"]["</s>"] = end
    (folder / "tokenizer.json").write_text(json.dumps(content))
    dataset = load(write_rows({"text": "ab"}), folder)
    assert dataset.samples.ids.tolist()[0] == 0
    assert dataset.samples.ids.tolist().count(1) == 1


def test_text_file_with_mark_and_windows_line_ends_gives_the_same_tokens(
    make_tokenizer: MakeTokenizer, tmp_path: Path
) -> None:
    plain, marked = tmp_path / "a.txt", tmp_path / "b.md"
    plain.write_bytes("one\n\n中文".encode())
    marked.write_bytes(b"\xef\xbb\xbf" + "one\r\n\r\n中文\r\n".encode())
    folder = make_tokenizer()
    assert load(plain, folder).samples.ids.tolist() == load(marked, folder).samples.ids.tolist()
    assert load(plain, folder).fingerprint == load(marked, folder).fingerprint


def test_chat_longer_than_a_sequence_is_cut_to_exactly_its_length_and_warned_of(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    dataset = load(write_rows(chat("yes" * 30), chat("y", "")), make_tokenizer(), sequence_length=40)
    assert dataset.samples.lengths.max() == 40
    assert any("1 of 2 samples have more than 40 tokens" in warning for warning in dataset.warnings)


def test_chats_without_an_answer_are_skipped_counted_and_named(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    silent = {"messages": [{"role": "user", "content": "q"}]}
    too_late = chat("y", "long question " * 9)
    dataset = load(write_rows(silent, chat("y"), too_late), make_tokenizer(), sequence_length=64)
    assert (dataset.num_samples, dataset.skipped, len(dataset.samples)) == (3, 2, 1)
    assert any("2 of 3 samples" in warning and "rows.jsonl:1, rows.jsonl:3" in warning for warning in dataset.warnings)


def test_data_without_a_token_to_train_on_is_refused(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    with pytest.raises(DataError, match="none of the 1 samples"):
        load(write_rows({"messages": [{"role": "user", "content": "q"}]}), make_tokenizer())
    with pytest.raises(DataError, match="no samples"):
        load(write_rows(), make_tokenizer())


def test_chat_is_trained_whole_where_all_is_asked(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    dataset = load(write_rows(chat("y")), make_tokenizer(), train_on="all", sequence_length=128)
    assert dataset.num_trained_tokens == dataset.num_tokens - 1


def test_bad_rows_are_all_named_before_anything_is_trained(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    with pytest.raises(DataError) as caught:
        load(write_rows(chat("y"), {"text": 1}, chat("z"), {"messages": 2}), make_tokenizer())
    assert [problem.line for problem in caught.value.problems] == [2, 4]


def test_tokenizer_with_more_ids_than_the_model_is_refused_with_both_numbers(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    folder = make_tokenizer()
    (folder / "config.json").write_text('{"model_type": "llama", "vocab_size": 50}')
    with pytest.raises(DataError, match="the model knows 50 ids"):
        load(write_rows({"text": "zzz"}), folder)


def test_padding_without_a_pad_token_is_the_end_token(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    dataset = load(write_rows({"text": "abc"}), make_tokenizer(pad=False))
    found = batch(dataset, 1)
    assert found.input_ids[0, 5:].tolist() == [1] * 27
    assert set(found.labels[0, 5:].tolist()) == {IGNORE}
    assert found.position_ids[0, 5:].tolist() == list(range(27))


def test_fingerprint_depends_on_content_tokenizer_and_options(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    rows = write_rows({"text": "abc"})
    folder = make_tokenizer()
    first = load(rows, folder).fingerprint
    assert load(rows, folder).fingerprint == first
    others = {
        load(rows, folder, **change).fingerprint
        for change in ({"seed": 1}, {"packing": False}, {"sequence_length": 31})
    }
    others.add(load(write_rows({"text": "abd"}, name="other.jsonl"), folder).fingerprint)
    others.add(load(rows, make_tokenizer(bos=False)).fingerprint)
    assert len(others - {first}) == 5


def ids_by_step(dataset: Dataset, size: int, steps: int, first: int = 1) -> list[list[list[int]]]:
    batches = dataset.source(size).batches(first)
    return [next(batches).input_ids.tolist() for _ in range(steps)]


def test_epochs_show_every_row_once_in_an_order_of_their_own(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    dataset = load(write_rows(*({"text": f"row {n:02}"} for n in range(10))), make_tokenizer(), packing=False)
    assert dataset.steps_of_epochs(1, 4) == 3
    assert dataset.steps_of_epochs(2, 4) == 6
    assert dataset.steps_of_epochs(0.01, 4) == 1
    steps = ids_by_step(dataset, 4, 6)
    padding = [2] * 32
    assert [step.count(padding) for step in steps] == [0, 0, 2, 0, 0, 2]
    rows = [row for step in steps for row in step if row != padding]
    epochs = [rows[:10], rows[10:]]
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert len({tuple(row) for row in epochs[0]}) == 10
    assert epochs[0] != epochs[1]


def test_batches_from_a_later_step_are_those_of_a_run_from_the_start(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    dataset = load(write_rows(*({"text": f"row {n:02}"} for n in range(7))), make_tokenizer(), packing=False)
    assert ids_by_step(dataset, 3, 4, first=6) == ids_by_step(dataset, 3, 9)[5:]


def test_order_depends_on_the_seed_alone(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    rows = write_rows(*({"text": f"row {n:02}"} for n in range(10)))
    folder = make_tokenizer()
    first, again, other = (ids_by_step(load(rows, folder, packing=False, seed=s), 10, 1) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_set_smaller_than_a_batch_fills_it(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    dataset = load(write_rows({"text": "ab"}, {"text": "cd"}), make_tokenizer(), packing=False)
    found = batch(dataset, 5)
    assert found.input_ids.shape == (5, 32)
    assert found.num_samples == 2
    assert found.num_trained_tokens == dataset.num_trained_tokens
    assert dataset.steps_of_epochs(1, 5) == 1
    assert dataset.steps_of_epochs(3, 5) == 3


def test_order_without_shuffle_is_that_of_the_file_in_every_epoch(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    rows = write_rows(*({"text": f"row {n:02}"} for n in range(7)))
    dataset = load(rows, make_tokenizer(), packing=False, shuffle=False)
    batches = dataset.source(4).batches(1)
    told = [[origin for origin in next(batches).origins if origin] for _ in range(4)]
    lines = [[f"rows.jsonl line {n}" for n in part] for part in ((1, 2, 3, 4), (5, 6, 7))]
    assert told == lines * 2


def test_prompt_and_completion_are_encoded_apart_and_only_the_completion_is_trained(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    dataset = load(write_rows({"prompt": "ab", "completion": "c"}), make_tokenizer(None))
    found = batch(dataset, 1)
    assert found.input_ids[0, 0] == 0
    assert found.labels[0, :6].tolist() == [IGNORE, IGNORE, IGNORE, found.input_ids[0, 3], 1, IGNORE]


def test_long_chats_are_dropped_and_counted_where_asked(make_tokenizer: MakeTokenizer, write_rows: WriteRows) -> None:
    rows = write_rows(chat("yes" * 30), chat("y", ""))
    dataset = load(rows, make_tokenizer(), sequence_length=60, too_long="drop")
    assert (dataset.skipped, len(dataset.samples)) == (1, 1)
    assert any("are dropped (data.too_long): rows.jsonl:1" in warning for warning in dataset.warnings)


def test_bad_rows_are_skipped_counted_and_named_where_asked(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    rows = write_rows({"text": "a"}, {"text": 1}, {"text": "b"}, ["text"])
    dataset = load(rows, make_tokenizer(), bad_rows="skip")
    assert (dataset.num_samples, dataset.num_bad_rows) == (2, 2)
    assert any("2 bad rows are skipped (data.bad_rows): rows.jsonl:2, rows.jsonl:4" in w for w in dataset.warnings)


def eval_origins(dataset: Dataset) -> set[str]:
    return {origin for found in dataset.eval_batches(3) for origin in found.origins}


def test_eval_fraction_keeps_the_same_samples_whatever_seed_order_and_template(
    make_tokenizer: MakeTokenizer, tmp_path: Path
) -> None:
    texts = [chat(f"answer {n}") for n in range(200)]
    folder = make_tokenizer()

    def kept(rows: list[dict[str, Any]], **options: Any) -> set[str]:
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        dataset = load(path, folder, packing=False, sequence_length=64, eval_fraction=0.2, **options)
        assert dataset.num_sequences + dataset.num_eval_sequences == len(rows)
        lines = {int(origin.split()[-1]) for origin in eval_origins(dataset)}
        return {rows[line - 1]["messages"][1]["content"] for line in lines}

    first = kept(texts)
    assert 20 <= len(first) <= 60
    assert kept(list(reversed(texts)), seed=5) == first
    assert kept(texts, chat_template="alpaca") == first
    assert kept(texts[:100]) == first & {row["messages"][1]["content"] for row in texts[:100]}


def test_duplicates_fall_on_one_side_and_each_side_has_a_sample(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    rows = write_rows(*[{"text": "one"}, {"text": "two"}] * 3)
    for fraction in (0.001, 0.999):
        dataset = load(rows, make_tokenizer(), packing=False, eval_fraction=fraction)
        assert (dataset.num_sequences, dataset.num_eval_sequences) == (3, 3)
        assert len(eval_origins(dataset)) == 3
    with pytest.raises(DataError, match="all samples are the same"):
        load(write_rows(*[{"text": "one"}] * 3), make_tokenizer(), eval_fraction=0.5)


def test_eval_data_of_its_own_is_given_once_in_order_and_never_trained(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    rows = write_rows(*({"text": f"t{n}"} for n in range(4)), name="train.jsonl")
    own = write_rows(*({"text": f"e{n}"} for n in range(5)), name="eval.jsonl")
    folder = make_tokenizer()
    spec = DataSpec(path=str(rows), eval_path=str(own), sequence_length=32, packing=False)
    dataset = load_dataset(spec, paths=[rows], eval_paths=[own], tokenizer_dir=folder, cache_dir=folder / "cache")
    batches = list(dataset.eval_batches(2))
    assert [len(found.input_ids) for found in batches] == [2, 2, 1]
    assert [origin for found in batches for origin in found.origins] == [f"eval.jsonl line {n}" for n in range(1, 6)]
    assert set(batch(dataset, 4).origins) == {f"train.jsonl line {n}" for n in range(1, 5)}
    assert dataset.fingerprint != load(rows, folder, packing=False).fingerprint


@pytest.mark.parametrize("name", ["b.jsonl", "b.txt", "b.csv"])
def test_file_that_becomes_a_link_to_elsewhere_while_others_are_read_is_not_read(
    name: str, make_tokenizer: MakeTokenizer, tmp_path: Path
) -> None:
    folder, secret = tmp_path / "data", tmp_path / "secret.txt"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "first"}\n' * 3)
    (folder / name).write_text('text\n{"text": "second"}\n')
    secret.write_text('{"text": "secret"}\n')

    def swap() -> bool:
        (folder / name).unlink()
        (folder / name).symlink_to(secret)
        return False

    spec = DataSpec.model_validate({"path": str(folder), "sequence_length": 32})
    with confined_to([folder]), pytest.raises(LeadsOut, match=f"{name} leads to {secret} now"):
        load_dataset(
            spec, paths=[folder], tokenizer_dir=make_tokenizer(), cache_dir=tmp_path / "cache", should_stop=swap
        )
