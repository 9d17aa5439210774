"""JSON that is not one object a line: an array, objects over several lines, rows under a key. Read as it comes."""

import json
from collections.abc import Callable, Iterator
from typing import IO, Any

from horizon_app.data.lines import NotUtf8, read_chunks
from horizon_app.data.records import BrokenFile, JsonDecoder, Record, as_row

WRAPPERS = frozenset({"data", "rows", "train", "examples", "samples", "records", "items", "instances"})
"""Keys under which files keep their rows."""

_MOST_CHARACTERS = 512 << 20
_SPACE = " \t\r\n"


def read_json_text(
    file: IO[bytes], on_duplicate: Callable[[int, str], None], is_row_key: Callable[[str], bool]
) -> Iterator[Record]:
    """The rows of an array, of an object that holds them under a key, or of objects behind each other.

    `is_row_key` tells the keys of rows, which an object around rows does not have. Raises BrokenFile.
    """
    text = _JsonText(file, on_duplicate)
    while text.peek():
        if text.take("["):
            yield from _elements(text)
        elif text.peek() == "{":
            yield from _object(text, is_row_key)
        else:
            yield _row(text)


def _elements(text: "_JsonText") -> Iterator[Record]:
    """The rest of an array, behind its bracket."""
    if text.take("]"):
        return
    while True:
        yield _row(text)
        if text.take("]"):
            return
        text.expect(",", "]")


def _row(text: "_JsonText") -> Record:
    text.peek()
    line, start = text.line, text.position
    value = text.value()
    return Record(line, as_row(value), text.position - start)


def _object(text: "_JsonText", is_row_key: Callable[[str], bool]) -> Iterator[Record]:
    """An object that is a row, or one that holds rows."""
    line, start = text.line, text.position
    text.expect("{")
    row: dict[str, Any] = {}
    wrapped = False
    while not text.take("}"):
        if row or wrapped:
            text.expect(",", "}")
        key = text.key()
        if key in WRAPPERS and not any(is_row_key(known) for known in row) and text.take("["):
            wrapped = True
            yield from _elements(text)
        else:
            if key in row:
                text.duplicate(key)
            row[key] = text.value()
    if not wrapped:
        yield Record(line, row, text.position - start)


class _JsonText:
    """Text of a file that is read as far as it is needed. Errors of JSON are raised as BrokenFile with their line."""

    def __init__(self, file: IO[bytes], on_duplicate: Callable[[int, str], None]) -> None:
        self._chunks = read_chunks(file)
        self._twice: list[str] = []
        self._decoder = JsonDecoder(self._twice.append).decoder
        self._on_duplicate = on_duplicate
        self._text = ""
        self._at = 0
        self._dropped = 0
        self._counted = 0
        self._line = 1

    @property
    def position(self) -> int:
        """Characters behind us."""
        return self._dropped + self._at

    @property
    def line(self) -> int:
        """The line that we are in, counted from 1."""
        return self._line_of(self._at)

    def duplicate(self, key: str) -> None:
        """Tell of a key that stands twice near here."""
        self._on_duplicate(self.line, key)

    def peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, character: str) -> bool:
        """Step over `character` where it is the next."""
        found = self.peek() == character
        self._at += found
        return found

    def expect(self, character: str, other: str = "") -> None:
        """Step over `character`, which has to be the next; `other` may come instead and is left. Raises BrokenFile."""
        if not self.take(character) and (not other or self.peek() != other):
            what = repr(self.peek()) if self.peek() else "the end of the file"
            raise self._broken(f"{character!r} is missing before {what}", self._at)

    def key(self) -> str:
        """A key with its colon. Raises BrokenFile."""
        self.peek()
        key = self.value()
        if not isinstance(key, str):
            raise self._broken("a key is not in double quotes", self._at)
        self.expect(":")
        return key

    def value(self) -> Any:
        """The next value. Raises BrokenFile."""
        if not self.peek():
            raise self._broken("the file ends before a value", self._at)
        while True:
            self._twice.clear()  # what a first try on half a value has found
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._cut_short(error) and self._more():
                    continue
                raise self._broken(error.msg.removesuffix(" at"), error.pos) from None
            except (ValueError, RecursionError) as error:
                raise self._broken(f"not usable: {error}", self._at) from None
            if end == len(self._text) and self._more():
                continue  # a number may go on
            for key in self._twice:
                self.duplicate(key)
            self._at = end
            return value

    def _cut_short(self, error: json.JSONDecodeError) -> bool:
        """Whether the value may just not be read to its end yet: a word or an escape has at most 16 characters."""
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - 16

    def _more(self) -> bool:
        """Twice as much text behind the place where we are; what lies before it is let go."""
        self._line, self._counted = self._line_of(self._at), 0
        self._dropped += self._at
        parts = [self._text[self._at :]]
        self._at = 0
        wanted = max(1, len(parts[0]))
        if wanted > _MOST_CHARACTERS:
            raise BrokenFile("a value has more than 512 Mi characters", "write one JSON object a line", self._line)
        try:
            for chunk in self._chunks:
                parts.append(chunk)
                wanted -= len(chunk)
                if wanted <= 0:
                    break
        except NotUtf8 as error:
            raise BrokenFile(str(error), error.fix, error.line) from None
        self._text = "".join(parts)
        return len(parts) > 1

    def _line_of(self, position: int) -> int:
        if position >= self._counted:
            self._line += self._text.count("\n", self._counted, position)
            self._counted = position
            return self._line
        return self._line - self._text.count("\n", position, self._counted)

    def _broken(self, message: str, position: int) -> BrokenFile:
        line_start = self._text.rfind("\n", 0, position) + 1
        column = f" at column {position - line_start + 1}" if line_start or not self._dropped else ""
        fix = "correct the file, or write one JSON object a line"
        return BrokenFile(f"not JSON: {message}{column}", fix, self._line_of(position))
