"""From files in every container and format to rows, or to what is wrong with them, by file, line and field."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import zstandard

from horizon_app.contracts.spec_words import DataFormat
from horizon_app.data import containers, json_text
from horizon_app.data.errors import MOST_LISTED, DataError, ProblemList
from horizon_app.data.reader import RowReader
from horizon_app.data.rows import ChatRow, PairRow, Row, TextRow, content_digest

GOOD = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
ALPACA = [{"instruction": f"i{n}", "input": "", "output": f"o{n}"} for n in range(3)]


def read(path: Path, format: DataFormat = DataFormat.AUTO) -> tuple[list[Row], list[tuple[int | None, str]]]:
    rows, problems, _ = read_all(path, format)
    return rows, [(problem.line, problem.message) for problem in problems.found.listed]


def read_all(path: Path, format: DataFormat = DataFormat.AUTO) -> tuple[list[Row], ProblemList, RowReader]:
    problems = ProblemList()
    reader = RowReader([path], format, problems)
    return list(reader), problems, reader


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def chats(rows: list[Row]) -> list[list[dict[str, Any]]]:
    return [row.messages for row in rows if isinstance(row, ChatRow)]


def test_jsonl_with_mark_blank_lines_and_no_last_newline_gives_every_row_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b"\xef\xbb\xbf" + GOOD.encode() + b'\r\n\r\n   \n{"text": "x"}')
    rows, problems = read(path)
    assert problems == []
    assert [(type(row), row.line) for row in rows] == [(ChatRow, 1), (TextRow, 4)]


def test_jsonl_with_a_line_separator_inside_of_a_string_keeps_its_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "one\u2028two\x85three"}\n{"text": "b"}\n')
    rows, problems = read(path)
    assert problems == []
    assert [row.text for row in rows if isinstance(row, TextRow)] == ["one\u2028two\x85three", "b"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"text": "a"', "not JSON"),
        ("[" * 100_000, "JSON"),
        ('"text"', "the row is text, not an object"),
        ('{"other": 1}', "the keys of the row tell no format (it has: other)"),
        ('{"prompt": "a"}', "and completion is missing"),
        ('{"text": 5}', "text is a number (5), not text"),
        ('{"text": "\\ud83d"}', "surrogate"),
        ('{"messages": []}', "messages is an empty list"),
        ('{"messages": {"role": "user"}}', "messages is an object"),
        ('{"messages": "[1"}', "messages holds text that is not JSON"),
        ('{"messages": ["a"]}', "messages[0] is text"),
        ('{"messages": [{"role": "user"}]}', "messages[0].content is missing"),
        ('{"messages": [{"content": "a"}]}', "messages[0].role is missing"),
        ('{"messages": [{"role": "asistant", "content": "a"}]}', "messages[0].role is 'asistant'"),
        ('{"messages": [{"role": "user", "content": null}]}', "messages[0].content is null"),
        (
            '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
            "messages[0].content[0] is of the type",
        ),
        ('{"messages": [{"role": "user", "content": [{"type": "text"}]}]}', "messages[0].content[0].text is null"),
        ('{"messages": [{"role": "assistant", "tool_calls": [1]}]}', "messages[0].tool_calls[0] is a number"),
        (
            '{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{1"}}]}]}',
            "messages[0].tool_calls[0].function.arguments holds text that is not JSON",
        ),
        ('{"messages": [{"role": "user", "content": "a"}], "tools": [3]}', "tools[0] is a number (3)"),
        ('{"conversations": [{"from": "human"}]}', "conversations[0].value is missing"),
        ('{"conversations": [{"from": "me", "value": "a"}]}', "conversations[0].from is 'me'"),
        ('{"instruction": "a", "output": null}', "output is null"),
        ('{"instruction": "a", "output": "b", "history": [["q"]]}', "history[0] has 1 entries"),
        ('{"prompt": "a", "completion": 3}', "completion is a number (3)"),
    ],
)
def test_row_that_is_wrong_is_named_by_line_and_field(line: str, words: str, tmp_path: Path) -> None:
    _, problems = read(write(tmp_path / "a.jsonl", f"{GOOD}\n\n{line}\n"))
    assert [number for number, _ in problems] == [3]
    assert words in problems[0][1]


def test_field_of_a_problem_is_its_place_in_the_row(tmp_path: Path) -> None:
    bad = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": 42}]}'
    _, problems, _ = read_all(write(tmp_path / "a.jsonl", bad))
    assert [problem.field for problem in problems.found.listed] == ["messages[1].content"]


def test_jsonl_with_many_bad_rows_lists_the_first_and_counts_all(tmp_path: Path) -> None:
    rows, problems, _ = read_all(write(tmp_path / "a.jsonl", f"{GOOD}\n" + "{\n" * (MOST_LISTED + 30)))
    assert len(rows) == 1
    with pytest.raises(DataError, match="and 980 more problems") as caught:
        problems.raise_if_any()
    assert [problem.line for problem in caught.value.problems] == list(range(2, MOST_LISTED + 2))
    assert caught.value.total == MOST_LISTED + 30


def test_key_that_stands_twice_is_a_warning_and_the_last_counts(tmp_path: Path) -> None:
    twice = '{"text": "a", "meta": {"x": 1, "x": 2}, "text": "b"}'
    for content in (f'{{"text": "z"}}\n{twice}', f"[\n{twice}]"):
        rows, problems, _ = read_all(write(tmp_path / "a.jsonl", content))
        assert isinstance(rows[-1], TextRow) and rows[-1].text == "b"
        assert [(found.line, found.field) for found in problems.warned.listed] == [(2, "x"), (2, "text")]


JSON_LAYOUTS = {
    "array on one line": json.dumps(ALPACA),
    "array": json.dumps(ALPACA, indent=1),
    "lines": "\n\n".join(map(json.dumps, ALPACA)),
    "objects over lines": "\n".join(json.dumps(row, indent=2) for row in ALPACA),
    "under a key": json.dumps({"version": [1], "data": ALPACA}, indent=2),
    "under a key, one line": json.dumps({"train": ALPACA, "about": {}}),
}


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize("layout", JSON_LAYOUTS)
def test_json_is_read_by_its_content_and_not_by_its_name(
    layout: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / f"a{suffix}", JSON_LAYOUTS[layout])
    first, problems, reader = read_all(path)
    assert (len(first), problems.found.listed) == (3, [])
    assert reader.reports[0].container_reason
    monkeypatch.setattr("horizon_app.data.lines._CHUNK_BYTES", 7)
    again, _, _ = read_all(path)
    assert chats(again) == chats(first) == [
        [{"role": "user", "content": f"i{n}"}, {"role": "assistant", "content": f"o{n}"}] for n in range(3)
    ]  # fmt: skip
    assert [row.line for row in again] == [row.line for row in first]


def test_row_over_several_lines_is_named_by_its_first(tmp_path: Path) -> None:
    rows, problems = read(write(tmp_path / "a.json", '[\n {"text": "a"},\n {\n"text": 3},\n {"text": "b"}\n]'))
    assert [row.line for row in rows] == [2, 5]
    assert [line for line, _ in problems] == [3]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ('[{"text": "a"},\n{"text": "b"', 2, "delimiter"),
        ('[{"text": "a"}\n{"text": "b"}]', 2, "',' is missing before '{'"),
        ('{"a": 1,\n"data": [{"text": "a"},\n{"text": b}]}', 3, "Expecting value"),
        ('{\n"data": [{"text": "a"}]', 2, "is missing before the end of the file"),
        ('[{"text": "a"}, \n\xff]', 2, "is not UTF-8"),
    ],
)
def test_json_that_breaks_off_is_one_problem_with_its_line(content: str, line: int, words: str, tmp_path: Path) -> None:
    _, problems = read(write(tmp_path / "a.json", content.encode("latin-1")))
    assert [number for number, _ in problems] == [line]
    assert words in problems[0][1]


def test_broken_first_line_of_json_lines_leaves_the_others(tmp_path: Path) -> None:
    rows, problems = read(write(tmp_path / "a.jsonl", '{"text": "a",\n{"text": "b"}\n{"text": "c"}\n'))
    assert (len(rows), [line for line, _ in problems]) == (2, [1])


def test_value_that_no_memory_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_MOST_CHARACTERS", 1000)
    monkeypatch.setattr("horizon_app.data.lines._CHUNK_BYTES", 64)
    _, problems = read(write(tmp_path / "a.json", f'[{{"text": "{"x" * 5000}"}}]'))
    assert "a value has more than" in problems[0][1]


def test_csv_gives_rows_with_cells_over_several_lines(tmp_path: Path) -> None:
    content = 'instruction;output\r\n"two\r\nlines; here";"a ""word"""\r\n\r\nb;c\r\n'
    rows, problems = read(write(tmp_path / "a.csv", b"\xef\xbb\xbf" + content.encode()))
    assert problems == []
    assert [(row.line, row.messages[0]["content"]) for row in rows if isinstance(row, ChatRow)] == [
        (2, "two\nlines; here"), (5, "b"),
    ]  # fmt: skip
    assert chats(rows)[0][1]["content"] == 'a "word"'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"text\na,b\nc\n", [(2, "2 cells, the header 1")]),
        (b"prompt,completion\na\nb,c\n", [(2, "completion is null")]),
        (b'prompt,completion\na,"b\nc,d\n', [(2, "never closes")]),
        (b"prompt,completion\na,\xe9\nb,c\n", [(2, "not UTF-8")]),
        (b"prompt,prompt\na,b\n", [(1, "stand twice")]),
        (b"title,body\na,b\n", [(2, "tell no format")]),
    ],
)
def test_csv_that_is_wrong_is_named_by_line(content: bytes, expected: list[tuple[int, str]], tmp_path: Path) -> None:
    _, problems = read(write(tmp_path / "a.csv", content))
    assert [line for line, _ in problems] == [line for line, _ in expected]
    assert expected[0][1] in problems[0][1]


def test_csv_called_jsonl_is_read_as_what_it_is(tmp_path: Path) -> None:
    _, problems, reader = read_all(write(tmp_path / "a.jsonl", "instruction,output\na,b\n"))
    assert (reader.reports[0].container, reader.num_rows, problems.found.total) == ("CSV", 1, 0)


def test_parquet_rows_hold_only_what_they_were_given(tmp_path: Path) -> None:
    messages = [[{"role": "user", "content": "a", "name": "n"}], [{"role": "user", "content": "b"}]]
    table = arrow.table({"messages": messages, "image": [b"1", b"2"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    rows, problems, reader = read_all(tmp_path / "a.parquet")
    assert problems.found.listed == []
    assert chats(rows) == messages
    assert reader.reports[0].container == "Parquet"
    packed = write(tmp_path / "b.parquet.zst", zstandard.compress((tmp_path / "a.parquet").read_bytes()))
    assert chats(read(packed)[0]) == messages


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_files_give_the_same_rows(pack: Any, tmp_path: Path) -> None:
    for name, content in (("a.jsonl", GOOD), ("a.json", f"[{GOOD}]"), ("a.csv", "text\nx\n"), ("a.txt", "words\n")):
        plain, _ = read(write(tmp_path / name, content))
        packed, problems = read(write(tmp_path / f"{name}.gz", pack(content.encode())))
        assert problems == []
        assert [content_digest(row) for row in packed] == [content_digest(row) for row in plain]


def test_compressed_file_that_is_cut_short_is_refused_by_name(tmp_path: Path) -> None:
    _, problems = read(write(tmp_path / "a.jsonl.gz", gzip.compress(GOOD.encode())[:-4]))
    assert [(line, "cut short" in words) for line, words in problems] == [(None, True)]


def test_parquet_maps_and_text_that_is_not_called_so_are_read(tmp_path: Path) -> None:
    arguments = arrow.array([[("city", "Oslo"), ("day", None)]], arrow.map_(arrow.string(), arrow.string()))
    function = arrow.StructArray.from_arrays([arrow.array([b"f"]), arguments], ["name", "arguments"])
    call = arrow.StructArray.from_arrays([function], ["function"])
    calls = arrow.ListArray.from_arrays([0, 1], call)
    message = arrow.StructArray.from_arrays([arrow.array(["assistant"]), calls], ["role", "tool_calls"])
    table = arrow.table({"messages": arrow.ListArray.from_arrays([0, 1], message)})
    parquet.write_table(table, tmp_path / "a.parquet")
    ((turn,),) = chats(read(tmp_path / "a.parquet")[0])
    assert turn["tool_calls"] == [{"function": {"name": "f", "arguments": {"city": "Oslo"}}}]


def test_every_line_that_is_not_utf8_is_named_also_where_none_is(tmp_path: Path) -> None:
    _, problems = read(write(tmp_path / "a.jsonl", '{"text": "é"}\n{"text": "ü"}\n'.encode("latin-1")))
    assert [line for line, _ in problems] == [1, 2]


def test_long_first_line_is_not_read_to_find_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_MOST_LINE_BYTES", 64)
    monkeypatch.setattr(containers, "_START_BYTES", 64)
    for content, rows in ((json.dumps({"data": ALPACA}), 3), (json.dumps({**ALPACA[0], "more": "x" * 99}), 1)):
        found, problems = read(write(tmp_path / "a.jsonl", content))
        assert (len(found), problems) == (rows, [])


def test_text_file_of_rows_is_read_as_rows_unless_text_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", f"{GOOD}\n")
    assert isinstance(read(path)[0][0], ChatRow)
    assert isinstance(read(path, DataFormat.TEXT)[0][0], TextRow)
    assert isinstance(read(write(tmp_path / "b.md", "{not json} and so on"))[0][0], TextRow)


def test_format_that_the_rows_do_not_have_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "a"}\n')
    assert "messages is missing" in read(path, DataFormat.MESSAGES)[1][0][1]
    assert "text is missing" in read(write(path, GOOD), DataFormat.TEXT)[1][0][1]
    assert "plain text" in read(write(tmp_path / "a.md", "# words"), DataFormat.MESSAGES)[1][0][1]


def rows_of(tmp_path: Path, *rows: Any) -> list[Row]:
    found, problems = read(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert problems == []
    return found


def test_openai_rows_keep_tools_join_parts_and_decode_arguments(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": null}'}}
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    turns = [{"role": "user", "content": parts}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    (row,) = rows_of(tmp_path, {"messages": turns, "tools": json.dumps([{"type": "function"}])})
    assert isinstance(row, ChatRow)
    assert row.tools == [{"type": "function"}]
    assert row.messages[0]["content"] == "a b"
    assert row.messages[1]["content"] == ""
    assert row.messages[1]["tool_calls"][0]["function"]["arguments"] == {"x": None}


def test_sharegpt_rows_become_turns_with_system_calls_and_results(tmp_path: Path) -> None:
    turns = [
        {"from": "human", "value": "q"},
        {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
        {"from": "observation", "value": "1"},
        {"from": "gpt", "value": "a"},
    ]
    (row,) = rows_of(tmp_path, {"conversations": turns, "system": "s", "tools": "[]"})
    assert isinstance(row, ChatRow)
    assert [message["role"] for message in row.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert row.messages[2]["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}
    assert row.tools is None


def test_alpaca_rows_join_input_and_keep_system_and_history(tmp_path: Path) -> None:
    (row,) = rows_of(
        tmp_path, {"instruction": "i", "input": "more", "output": "o", "system": "s", "history": [["q", "a"]]}
    )
    assert isinstance(row, ChatRow)
    assert [message["content"] for message in row.messages] == ["s", "q", "a", "i\n\nmore", "o"]


def test_prompt_and_completion_are_texts_or_halves_of_a_chat(tmp_path: Path) -> None:
    turn, answer = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    pair, chat = rows_of(
        tmp_path, {"prompt": "p", "completion": "c"}, {"prompt": [turn, answer, turn], "completion": [answer]}
    )
    assert isinstance(pair, PairRow) and (pair.prompt, pair.completion) == ("p", "c")
    assert isinstance(chat, ChatRow) and (len(chat.messages), chat.answers_from) == (4, 3)


def test_digest_of_content_depends_on_nothing_else(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}]
    swapped = [{"content": "a", "role": "user"}]
    first, same, other, text = rows_of(
        tmp_path, {"messages": turns}, {"messages": swapped, "note": 1}, {"messages": turns, "tools": [{}]},
        {"text": "a"},
    )  # fmt: skip
    assert content_digest(first) == content_digest(same)
    assert len({content_digest(row) for row in (first, other, text)}) == 3


def test_reading_stops_after_what_was_asked_for_at_the_end_of_a_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", f"{GOOD}\n" * 1000)
    problems = ProblemList()
    reader = RowReader([path], DataFormat.AUTO, problems, most_characters=5000)
    assert 50 < len(list(reader)) < 70
    assert (reader.complete, problems.found.total) == (False, 0)
