from pathlib import Path

import pytest

from horizon_app.contracts.run_spec import DataFormat
from horizon_app.data.errors import MOST_LISTED, DataError, ProblemList
from horizon_app.data.rows import ChatRow, Row, TextRow, read_rows

GOOD = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'


def read(path: Path, format: DataFormat = DataFormat.AUTO) -> tuple[list[Row], list[tuple[int | None, str]]]:
    problems = ProblemList()
    rows = list(read_rows([path], format, problems))
    return rows, [(problem.line, problem.message) for problem in problems.problems]


def test_jsonl_with_mark_blank_lines_and_no_last_newline_gives_every_row_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode() + b'\r\n\r\n   \n{"text": "x"}')
    rows, problems = read(path)
    assert problems == []
    assert [(type(row), row.line) for row in rows] == [(ChatRow, 1), (TextRow, 4)]


def test_jsonl_with_a_line_separator_inside_of_a_string_keeps_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one\u2028two\x85three"}\n{"text": "b"}\n', encoding="utf-8")
    rows, problems = read(path)
    assert problems == []
    assert [row.text for row in rows if isinstance(row, TextRow)] == ["one\u2028two\x85three", "b"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"text": "a"', "not JSON"),
        ("[" * 100_000, "JSON"),
        ('"text"', "the line is text, not an object"),
        ('{"other": 1}', "neither messages nor text"),
        ('{"text": 5}', "text is a number (5), not text"),
        ('{"text": "\\ud83d"}', "surrogate"),
        ('{"messages": []}', "an empty list"),
        ('{"messages": {"role": "user"}}', "messages is an object"),
        ('{"messages": ["a"]}', "messages[0] is text"),
        ('{"messages": [{"role": "user"}]}', "messages[0].content is missing"),
        ('{"messages": [{"content": "a"}]}', "messages[0].role is missing"),
        ('{"messages": [{"role": "user", "content": null}]}', "messages[0].content is null"),
        ('{"messages": [{"role": "user", "content": [{"type": "text"}]}]}', "messages[0].content is a list"),
        ('{"messages": [{"role": "a", "content": "", "tool_calls": [1]}]}', "not available yet"),
        ('{"instruction": "a", "output": "b"}', "alpaca is not available yet"),
        ('{"conversations": []}', "sharegpt is not available yet"),
        ('{"prompt": "a", "completion": "b"}', "prompt_completion is not available yet"),
    ],
)
def test_jsonl_row_that_is_wrong_is_named_by_its_line(line: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n")
    _, problems = read(path)
    assert [number for number, _ in problems] == [3]
    assert words in problems[0][1]


def test_jsonl_with_many_bad_rows_lists_the_first_and_counts_all(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{GOOD}\n" + "{\n" * (MOST_LISTED + 30))
    problems = ProblemList()
    assert len(list(read_rows([path], DataFormat.AUTO, problems))) == 1
    with pytest.raises(DataError, match="and 30 more problems") as caught:
        problems.raise_if_any()
    assert [problem.line for problem in caught.value.problems] == list(range(2, MOST_LISTED + 2))
    assert caught.value.total == MOST_LISTED + 30


@pytest.mark.parametrize("content", ['[{"text": "a"}]', '[\n{"text": "a"},\n{"text": "b"}\n]', '{\n "text": "a"\n}'])
def test_file_of_json_that_is_not_one_object_a_line_is_one_problem(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    rows, problems = read(path)
    assert rows == []
    assert len(problems) == 1


def test_format_that_the_rows_do_not_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n')
    assert "no messages" in read(path, DataFormat.MESSAGES)[1][0][1]
    path.write_text(GOOD)
    assert "no text" in read(path, DataFormat.TEXT)[1][0][1]
    document = tmp_path / "a.md"
    document.write_text("# words")
    assert "plain text" in read(document, DataFormat.MESSAGES)[1][0][1]
