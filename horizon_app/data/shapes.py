"""From a decoded object to a row: which format its keys tell, and what it says in that format."""

from collections.abc import Mapping
from typing import Any

from horizon_app.contracts.spec_words import DataFormat
from horizon_app.data.conversations import alpaca_messages, openai_messages, sharegpt_messages, tool_list
from horizon_app.data.errors import BadRow
from horizon_app.data.fields import text_field
from horizon_app.data.rows import ChatRow, PairRow, Row, TextRow

_KEYS: dict[DataFormat, tuple[str, ...]] = {
    DataFormat.MESSAGES: ("messages",),
    DataFormat.SHAREGPT: ("conversations",),
    DataFormat.PROMPT_COMPLETION: ("prompt", "completion"),
    DataFormat.ALPACA: ("instruction", "output"),
    DataFormat.TEXT: ("text",),
}
"""Keys that a row of each format has; where a row has those of several, the first counts."""

ROW_KEYS = frozenset({key for keys in _KEYS.values() for key in keys} | {"tools", "system", "input", "history"})
"""All keys that are read."""

_SHAPES = ", ".join(f"{format.value} ({' and '.join(keys)})" for format, keys in _KEYS.items())


def is_row_key(key: str) -> bool:
    """Whether rows have a key of this name."""
    return key in ROW_KEYS


def has_shape(row: Mapping[str, object]) -> bool:
    """Whether an object has the keys of some format."""
    return any(all(key in row for key in keys) for keys in _KEYS.values())


def format_of(row: Mapping[str, object]) -> DataFormat:
    """The format that a row's keys tell. Raises BadRow."""
    for format, keys in _KEYS.items():
        if all(key in row for key in keys):
            return format
    have = ", ".join(sorted(row)[:6]) or "none"
    half = next((keys for keys in _KEYS.values() if any(key in row for key in keys)), ())
    missing = f", and {' and '.join(key for key in half if key not in row)} is missing" if half else ""
    raise BadRow(f"the keys of the row tell no format (it has: {have}{missing})", f"a row has the keys of {_SHAPES}")


def reason_of(format: DataFormat) -> str:
    """What tells a format."""
    keys = _KEYS[format]
    return f"the rows have the key{'s' if len(keys) > 1 else ''} {' and '.join(keys)}"


def to_row(row: dict[str, Any], format: DataFormat, file: str, line: int) -> Row:
    """What a decoded object says. Raises BadRow."""
    for key in _KEYS[format]:
        if key not in row:
            have = ", ".join(sorted(row)[:6]) or "none"
            fix = (
                f"format {format.value} asks for {' and '.join(_KEYS[format])} in each row, or set data.format to auto"
            )
            raise BadRow(f"{key} is missing (the row has: {have})", fix, key)
    if format is DataFormat.TEXT:
        return TextRow(file=file, line=line, text=text_field(row["text"], "text"))
    if format is DataFormat.PROMPT_COMPLETION:
        return _pair(row, file, line)
    if format is DataFormat.MESSAGES:
        messages = openai_messages(row["messages"], "messages")
    elif format is DataFormat.SHAREGPT:
        messages = sharegpt_messages(row["conversations"], row.get("system"))
    else:
        messages = alpaca_messages(row)
    return ChatRow(file=file, line=line, messages=messages, tools=tool_list(row.get("tools")))


def _pair(row: dict[str, Any], file: str, line: int) -> Row:
    """Two texts, or two halves of a conversation."""
    prompt, completion = row["prompt"], row["completion"]
    if isinstance(prompt, list) or isinstance(completion, list):
        before = openai_messages(prompt, "prompt", may_end_open=True)
        after = openai_messages(completion, "completion")
        tools = tool_list(row.get("tools"))
        return ChatRow(file=file, line=line, messages=before + after, tools=tools, answers_from=len(before))
    return PairRow(
        file=file, line=line, prompt=text_field(prompt, "prompt"), completion=text_field(completion, "completion")
    )
