"""Long texts in parts that a tokenizer takes without needing many times their memory, cut at line ends."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from horizon_app.data.files import open_bytes
from horizon_app.data.lines import NotUtf8, read_lines
from horizon_app.data.records import BrokenFile
from horizon_app.data.rows import TextRow

PART_CHARACTERS = 1 << 18


def read_document(path: Path) -> Iterator[TextRow]:
    """A file as one text, with line feeds between its lines and without empty lines at its start and end.

    Raises Unreadable, and BrokenFile where it is not UTF-8.
    """
    return _as_rows(_gathered(_lines(path)), str(path), 1)


def in_parts(text: str, file: str, line: int) -> Iterator[TextRow]:
    """A text of a row, in parts where it is long."""
    return _as_rows(_cut(text), file, line)


def _as_rows(parts: Iterable[str], file: str, line: int) -> Iterator[TextRow]:
    """One row a part; the last says that the text ends."""
    held: str | None = None
    begins = True
    for part in parts:
        if held is not None:
            yield TextRow(file=file, line=line, text=held, begins=begins, ends=False)
            begins = False
        held = part
    yield TextRow(file=file, line=line, text=held or "", begins=begins)


def _cut(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > PART_CHARACTERS:
        end = text.rfind("\n", start, start + PART_CHARACTERS) + 1 or start + PART_CHARACTERS
        yield text[start:end]
        start = end
    yield text[start:]


def _gathered(lines: Iterable[str]) -> Iterator[str]:
    """Lines joined to parts; each part but the last ends with a line feed."""
    part: list[str] = []
    size = 0
    empty = 0  # lines without words wait: those at the end are left out
    for line in lines:
        if not line:
            empty += 1
            continue
        between = "\n" * empty if part else ""
        words = f"{between}{line}\n"
        if part and size + len(words) > PART_CHARACTERS:
            yield "".join(part)
            part, size = [], 0
        empty = 0
        part.append(words)
        size += len(words)
    if part:
        yield "".join(part).removesuffix("\n")


def _lines(path: Path) -> Iterator[str]:
    with open_bytes(path) as file:
        for line in read_lines(file):
            if isinstance(line, NotUtf8):
                raise BrokenFile(str(line), line.fix, line.line)
            yield line.text
