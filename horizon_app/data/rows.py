"""From lines to rows: plain text or chat messages, each with the place it came from. Knows nothing of tokenizers."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from horizon_app.contracts.run_spec import DataFormat
from horizon_app.data.errors import ProblemList
from horizon_app.data.files import TEXT_SUFFIXES, Line, read_lines, read_text

Message = dict[str, Any]
_WRITE_ROWS = 'write {"messages": [{"role": ..., "content": ...}, ...]} or {"text": ...}, one object a line'
_LATER_SHAPES = {
    "conversations": DataFormat.SHAREGPT,
    "instruction": DataFormat.ALPACA,
    "completion": DataFormat.PROMPT_COMPLETION,
    "prompt": DataFormat.PROMPT_COMPLETION,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TextRow:
    """A document to train on whole."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRow:
    """A conversation."""

    file: str
    line: int
    messages: list[Message]


Row = TextRow | ChatRow


class _BadRow(ValueError):
    """What is wrong with one row."""

    def __init__(self, message: str, fix: str = _WRITE_ROWS) -> None:
        self.fix = fix
        super().__init__(message)


class _LaterFormat(_BadRow):
    """A row of a format that this version does not read."""


def read_rows(files: Sequence[Path], format: DataFormat, problems: ProblemList) -> Iterator[Row]:
    """The rows of all files, in order; what is wrong goes into `problems` with its file and line."""
    for path in files:
        try:
            if path.suffix.lower() in TEXT_SUFFIXES:
                yield from _document(path, format, problems)
            else:
                yield from _json_lines(path, format, problems)
        except OSError as error:
            problems.add(f"the file can't be read: {error.strerror or error}", file=str(path))


def _document(path: Path, format: DataFormat, problems: ProblemList) -> Iterator[Row]:
    if format not in (DataFormat.AUTO, DataFormat.TEXT):
        problems.add(
            f"data.format is {format.value}, but a {path.suffix} file is plain text",
            fix="set data.format to auto or text, or give a .jsonl file", file=str(path),
        )  # fmt: skip
        return
    yield TextRow(file=str(path), line=1, text=read_text(path, problems))


def _json_lines(path: Path, format: DataFormat, problems: ProblemList) -> Iterator[Row]:
    first = True
    for line in read_lines(path, problems):
        if not line.text.strip():
            continue
        try:
            row = _decode(line)
            shape = _shape(row) if format is DataFormat.AUTO else format
            yield _row(row, shape, path, line.number)
        except _BadRow as error:
            container = _other_container(path) if first and line.text.lstrip()[0] in "[{" else ""
            if container:
                problems.add(container, fix="write one JSON object a line", file=str(path), line=line.number)
                return
            problems.add(str(error), fix=error.fix, file=str(path), line=line.number)
            if isinstance(error, _LaterFormat):
                return  # said once: all rows are of this kind
        first = False


def _decode(line: Line) -> dict[str, Any]:
    try:
        row = json.loads(line.text)
    except json.JSONDecodeError as error:
        raise _BadRow(f"not JSON: {error.msg} at column {error.colno}", "correct or remove the line") from error
    except (ValueError, RecursionError) as error:
        raise _BadRow(f"not usable JSON: {error}", "correct or remove the line") from error
    if not isinstance(row, dict):
        raise _BadRow(f"the line is {_kind(row)}, not an object")
    return cast(dict[str, Any], row)


def _other_container(path: Path) -> str:
    """What a .jsonl file holds that is not one object a line; empty where it is just a bad line."""
    try:
        text = path.read_bytes().decode("utf-8-sig").lstrip()
        value, end = json.JSONDecoder().raw_decode(text)
    except (OSError, ValueError, RecursionError):
        return ""
    if isinstance(value, list):
        return "the file is one JSON array, not one object a line"
    return "its objects are spread over several lines, not one a line" if "\n" in text[:end] else ""


def _shape(row: dict[str, Any]) -> DataFormat:
    if "messages" in row:
        return DataFormat.MESSAGES
    if "text" in row:
        return DataFormat.TEXT
    for key, later in _LATER_SHAPES.items():
        if key in row:
            raise _LaterFormat(f"the row has the key {key}: the format {later.value} is not available yet")
    keys = ", ".join(sorted(row)[:6]) or "none"
    raise _BadRow(f"the row has neither messages nor text (its keys: {keys})")


def _row(row: dict[str, Any], shape: DataFormat, path: Path, line: int) -> Row:
    if shape is DataFormat.TEXT:
        if "text" not in row:
            raise _BadRow("the row has no text, as format text asks")
        return TextRow(file=str(path), line=line, text=_text(row["text"], "text"))
    if "messages" not in row:
        raise _BadRow("the row has no messages, as format messages asks")
    if row.get("tools"):
        raise _BadRow("tools in rows are not available yet", "remove the row")
    messages = row["messages"]
    if not isinstance(messages, list) or not messages:
        kind = "an empty list" if messages == [] else _kind(messages)
        raise _BadRow(f"messages is {kind}, not a list of messages")
    return ChatRow(
        file=str(path), line=line, messages=[_message(m, i) for i, m in enumerate(cast(list[Any], messages))]
    )


def _message(message: Any, index: int) -> Message:
    place = f"messages[{index}]"
    if not isinstance(message, dict):
        raise _BadRow(f"{place} is {_kind(message)}, not an object with role and content")
    given = cast(Message, message)
    for key in ("role", "content"):
        if key not in given:
            raise _BadRow(f"{place}.{key} is missing")
    if given.get("tool_calls"):
        raise _BadRow(f"{place}.tool_calls: tool calls are not available yet", "remove the row")
    if not _text(given["role"], f"{place}.role"):
        raise _BadRow(f"{place}.role is empty")
    _text(given["content"], f"{place}.content")
    return {key: value for key, value in given.items() if value is not None}


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _BadRow(f"{place} is {_kind(value)}, not text")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            message = f"{place} holds half of a surrogate pair at character {error.start}, which is no text"
            raise _BadRow(message, "write the character as UTF-8 or as both halves") from error
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"a boolean ({str(value).lower()})"
    if isinstance(value, int | float):
        return f"a number ({value})"
    return {"str": "text", "list": "a list", "dict": "an object"}[type(value).__name__]
