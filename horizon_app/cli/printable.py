"""Text on a terminal: names, paths, logs and models may hold anything, and a terminal obeys what it is sent.

Control characters move cursors and write into clipboards; marks of direction turn around what stands beside them.
"""

import re
import sys
from collections.abc import Iterable

_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for line ends and tabs
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u2028\u2029\ud800-\udfff]"  # line ends of another kind, and halves of characters
)


def printable(text: str) -> str:
    """The text with all that a terminal would obey spelt out, but for line ends and tabs."""
    return _ODD.sub(lambda found: _spelt(ord(found[0])), text)


def printable_line(text: str) -> str:
    """The same in one line."""
    return printable(text).replace("\n", "\\n")


def write_lines(lines: Iterable[str]) -> None:
    """Write each to standard output as one line."""
    sys.stdout.write("".join(f"{printable_line(line)}\n" for line in lines))


def write_json(text: str) -> None:
    """Write a JSON document to standard output as one line, with all that a terminal would obey as escapes of JSON."""
    sys.stdout.write(_ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def _spelt(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
