"""What a container of rows gives: decoded objects, each with its place. Readers of JSON are here and in json_text."""

import json
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple, cast

from horizon_app.data.errors import BadRow
from horizon_app.data.lines import NotUtf8, read_lines

_CORRECT = "correct or remove the line"


class Record(NamedTuple):
    """One row as its container holds it, or what keeps it from being read."""

    line: int
    """Line in the file, counted from 1; in Parquet the row."""
    value: dict[str, Any] | BadRow
    num_characters: int
    """About how much of the file it took."""


class BrokenFile(Exception):
    """The rest of a file can't be read. `line` is where, 0 for nowhere in particular."""

    def __init__(self, message: str, fix: str = "", line: int = 0) -> None:
        self.message, self.fix, self.line = message, fix, line
        super().__init__(message)


class JsonDecoder:
    """Decodes JSON and tells of keys that an object has twice; the last value counts."""

    def __init__(self, on_duplicate: Callable[[str], None]) -> None:
        self._on_duplicate = on_duplicate
        self.decoder = json.JSONDecoder(object_pairs_hook=self._object)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self._on_duplicate(key)
                seen.add(key)
        return found


def read_json_lines(file: IO[bytes], on_duplicate: Callable[[int, str], None]) -> Iterator[Record]:
    """One JSON object a line; lines of white space alone are passed over. Raises BrokenFile."""
    number = 0
    decoder = JsonDecoder(lambda key: on_duplicate(number, key)).decoder
    for line in read_lines(file):
        if isinstance(line, NotUtf8):
            if line.whole_file:
                raise BrokenFile(str(line), line.fix, line.line)
            yield Record(line.line, line, 0)
            continue
        number = line.number
        if line.text.strip():
            yield Record(number, _decode(decoder, line.text), line.num_bytes)


def as_row(value: Any) -> dict[str, Any] | BadRow:
    """A decoded value where it is an object, else what is wrong with it."""
    if isinstance(value, dict):
        return cast(dict[str, Any], value)
    return BadRow(f"the row is {kind_of(value)}, not an object", 'write {"messages": ...} or {"text": ...} objects')


def kind_of(value: Any) -> str:
    """What a decoded value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"a boolean ({str(value).lower()})"
    if isinstance(value, int | float):
        return f"a number ({value})"
    words = {"str": "text", "list": "a list", "dict": "an object", "bytes": "bytes"}
    return words.get(type(value).__name__, f"a value of type {type(value).__name__}")


def _decode(decoder: json.JSONDecoder, text: str) -> dict[str, Any] | BadRow:
    try:
        return as_row(decoder.decode(text))
    except json.JSONDecodeError as error:
        return BadRow(f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}", _CORRECT)
    except (ValueError, RecursionError) as error:
        return BadRow(f"not usable JSON: {error}", _CORRECT)
