"""Bytes as UTF-8 text: by line, or in chunks. Knows nothing of what the text means.

UTF-8 is the only encoding, whatever the locale says; a byte order mark and Windows line ends change nothing.
"""

import codecs
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from horizon_app.data.errors import BadRow

MOST_LINE_BYTES = 512 << 20
"""A longer line is refused: a row has to fit into memory."""

_CHUNK_BYTES = 1 << 20
_AROUND = 200
# Letters of a script, and how many of all that is not ASCII they are at least, were the text in that encoding.
_SCRIPTS = (
    ("SHIFT_JIS", ("\u3040", "\u30ff"), 0.3),
    ("EUC-JP", ("\u3040", "\u30ff"), 0.3),
    ("EUC-KR", ("\uac00", "\ud7a3"), 0.95),
    ("GB18030", ("\u4e00", "\u9fff"), 0.8),
)
_LETTERS_OF_A_WORD = 4  # Western texts have one or two letters beyond ASCII in a word, Cyrillic ones have all
_BOM = codecs.BOM_UTF8
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


class NotUtf8(BadRow):
    """Bytes that are no UTF-8; `line` counts from 1. `whole_file` where no line of the file can be read."""

    def __init__(self, message: str, fix: str, line: int, *, whole_file: bool = False) -> None:
        self.line = line
        self.whole_file = whole_file
        super().__init__(message, fix)


class Line(NamedTuple):
    """A line of a file without its end, its number from 1, and its bytes in the file."""

    number: int
    text: str
    num_bytes: int


def read_lines(file: IO[bytes], *, most_bytes: int | None = None) -> Iterator[Line | NotUtf8]:
    """The lines of a UTF-8 file; one that is not UTF-8 comes as what is wrong with it.

    A line of more than `most_bytes` (512 MiB where left out) ends the reading.
    """
    most = MOST_LINE_BYTES if most_bytes is None else most_bytes
    offset = 0
    number = 0
    while raw := file.readline(most):
        number += 1
        line = raw.rstrip(b"\r\n")
        skipped = 0
        if number == 1:
            if wide := _wide_encoding(raw):
                yield _not_utf8_at_all(wide)
                return
            skipped = len(_BOM) if line.startswith(_BOM) else 0
        if len(raw) == most and not raw.endswith(b"\n"):
            size = f"line {number} has more than {most >> 20} MiB"
            yield NotUtf8(f"{size}, which is too long for a row", "write one row a line", number, whole_file=True)
            return
        try:
            yield Line(number, line[skipped:].decode("utf-8"), len(raw))
        except UnicodeDecodeError as error:
            at = skipped + error.start
            yield _bad_byte(line, at, offset + at, number)
        offset += len(raw)


def read_chunks(file: IO[bytes]) -> Iterator[str]:
    """The text of a UTF-8 file, about a MiB at a time. Raises NotUtf8 at the first byte that is none."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    begun = False
    offset, number = 0, 1
    while True:
        raw = file.read(_CHUNK_BYTES)
        ended = not raw
        if not begun:
            begun = True
            if wide := _wide_encoding(raw):
                raise _not_utf8_at_all(wide)
            if raw.startswith(_BOM):
                offset, raw = len(_BOM), raw[len(_BOM) :]
        kept: bytes = decoder.getstate()[0]
        try:
            text = decoder.decode(raw, final=ended)
        except UnicodeDecodeError as error:
            whole = kept + raw
            line = number + whole.count(b"\n", 0, error.start)
            start = max(0, error.start - _AROUND)
            around = whole[start : error.start + _AROUND]
            raise _bad_byte(around, error.start - start, offset + error.start, line) from None
        offset += len(kept) + len(raw) - len(decoder.getstate()[0])
        number += text.count("\n")
        if text:
            yield text
        if ended:
            return


def _wide_encoding(start: bytes) -> str:
    """The name of a wide encoding that a file is in; empty for any other. Rows and words begin with ASCII."""
    marked = next((name for mark, name in _WIDE_MARKS if start.startswith(mark)), "")
    return marked or ("UTF-16" if 0 in start[:2] and len(start) > 1 else "")


def _not_utf8_at_all(encoding: str) -> NotUtf8:
    fix = f"convert it: iconv -f {encoding} -t UTF-8"
    return NotUtf8(f"the file is {encoding}, not UTF-8", fix, line=1, whole_file=True)


def _bad_byte(around: bytes, at: int, offset: int, line: int) -> NotUtf8:
    message = f"byte 0x{around[at]:02x} at offset {offset} of the file is not UTF-8"
    return NotUtf8(message, f"convert the file: iconv -f {_likely_encoding(around)} -t UTF-8", line)


def _likely_encoding(text: bytes) -> str:
    """A guess for the hint only: text is never read with it."""
    for encoding, script, share in _SCRIPTS:
        try:
            letters = [character for character in text.decode(encoding) if ord(character) >= 0x80]
        except UnicodeDecodeError:
            continue
        if sum(script[0] <= letter <= script[1] for letter in letters) >= share * max(1, len(letters)):
            return encoding
    longest = max((len(run) for run in re.findall(rb"[\x80-\xff]+", text)), default=0)
    return "WINDOWS-1251" if longest >= _LETTERS_OF_A_WORD else "WINDOWS-1252"
