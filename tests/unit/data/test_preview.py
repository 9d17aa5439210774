from pathlib import Path

from horizon_app.contracts.run_spec import DataFormat
from horizon_app.data.preview import preview
from tests.unit.data.conftest import MakeTokenizer, WriteRows

CHAT = {"messages": [{"role": "user", "content": "中?"}, {"role": "assistant", "content": "文."}]}


def test_preview_with_a_tokenizer_shows_tokens_and_which_are_trained(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    found = preview([write_rows(CHAT)], tokenizer_dir=make_tokenizer())
    (sample,) = found.samples
    assert (found.format, found.num_rows, found.problems) == ("messages", 1, [])
    assert "".join(text for text, _ in sample.tokens).count("中") == 1
    assert "".join(text for text, trained in sample.tokens if trained) == "文.<|im_end|>"
    assert sample.num_tokens == len(sample.tokens)
    assert sample.num_trained == sum(trained for _, trained in sample.tokens)


def test_preview_without_a_tokenizer_shows_whose_words_are_trained(write_rows: WriteRows) -> None:
    (sample,) = preview([write_rows(CHAT)]).samples
    assert [text for text, trained in sample.tokens if trained] == ["文."]
    assert sample.num_tokens is None


def test_preview_of_bad_rows_tells_them_beside_the_good_ones(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    found = preview([write_rows(CHAT, {"text": 3}, {"text": "a"})], tokenizer_dir=make_tokenizer())
    assert found.format == "messages+text"
    assert [problem.line for problem in found.problems] == [2]
    assert len(found.samples) == 2


def test_preview_of_many_rows_reads_all_and_shows_the_first(
    make_tokenizer: MakeTokenizer, write_rows: WriteRows
) -> None:
    silent = {"messages": CHAT["messages"][:1]}
    found = preview([write_rows(*[CHAT] * 9, silent)], tokenizer_dir=make_tokenizer(), most_samples=2, most_tokens=4)
    assert found.num_rows == 10
    assert [len(sample.tokens) for sample in found.samples] == [4, 4]
    assert any("1 of 10 rows" in warning for warning in found.warnings)


def test_preview_of_what_can_not_be_read_raises_nothing(tmp_path: Path, write_rows: WriteRows) -> None:
    assert preview([tmp_path / "gone.txt"]).num_problems == 1
    assert "not available yet" in preview([write_rows(CHAT)], DataFormat.SHAREGPT).problems[0].message
    assert preview([write_rows(CHAT)], tokenizer_dir=tmp_path / "gone").problems[0].field == "model.path"
