"""Rows of a CSV file: the first line names the columns, quoted cells may span lines."""

import csv
from collections.abc import Iterator, Sequence
from typing import IO

from horizon_app.data.errors import BadRow
from horizon_app.data.lines import MOST_LINE_BYTES, NotUtf8, read_lines
from horizon_app.data.records import BrokenFile, Record

_DELIMITERS = ",;\t"


def delimiter_of(header: str) -> str:
    """The delimiter that cuts a header into most columns."""
    return max(_DELIMITERS, key=header.count)


def columns_of(header: str) -> list[str]:
    """The columns that a line names, were it the header of a CSV file; none where it can't be one."""
    try:
        rows = csv.reader([header], delimiter=delimiter_of(header), strict=True)
        return [cell.strip() for row in rows for cell in row]
    except csv.Error:
        return []


def read_csv(file: IO[bytes]) -> Iterator[Record]:
    """Each row as an object of its columns; a cell that is missing at the end is null. Raises BrokenFile."""
    csv.field_size_limit(MOST_LINE_BYTES)
    lines = _Lines(file)
    header = next((line for line in lines if line.strip()), "")
    columns = columns_of(header)
    if (bad := list(lines.bad())) or not columns:
        yield from bad
        return
    twice = {name for name in columns if columns.count(name) > 1}
    if twice:
        raise BrokenFile(f"the columns {', '.join(sorted(twice))} stand twice", "name each column once", lines.number)
    reader = csv.reader(lines, delimiter=delimiter_of(header), strict=True)
    while True:
        first, reached = lines.number + 1, lines.num_characters
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield Record(first, _csv_error(error, lines.ended), lines.num_characters - reached)
            continue
        if (bad := list(lines.bad())) or cells is None:
            yield from bad  # a line is missing inside of the row, whatever was read of it
            if cells is None:
                return
        elif cells:
            yield Record(first, _row(columns, cells), lines.num_characters - reached)


def _row(columns: Sequence[str], cells: Sequence[str]) -> dict[str, object] | BadRow:
    if len(cells) > len(columns):
        message = f"the row has {len(cells)} cells, the header {len(columns)}"
        return BadRow(message, "put cells that hold the delimiter into double quotes")
    return dict(zip(columns, [*cells, *[None] * (len(columns) - len(cells))], strict=True))


def _csv_error(error: csv.Error, ended: bool) -> BadRow:
    if ended:
        return BadRow("a double quote that opens here never closes", "close it, or double the quotes inside of a cell")
    return BadRow(f"not CSV: {error}", "double the quotes inside of a quoted cell")


class _Lines(Iterator[str]):
    """The good lines of a file for the csv module, which wants their ends; the bad ones are kept aside."""

    def __init__(self, file: IO[bytes]) -> None:
        self._lines = read_lines(file)
        self._bad: list[Record] = []
        self.number = 0
        self.num_characters = 0
        self.ended = False

    def __next__(self) -> str:
        for line in self._lines:
            if not isinstance(line, NotUtf8):
                self.number = line.number
                self.num_characters += line.num_bytes
                return line.text + "\n"
            if line.whole_file:
                raise BrokenFile(str(line), line.fix, line.line)
            self.number = line.line
            self._bad.append(Record(line.line, line, 0))
        self.ended = True
        raise StopIteration

    def bad(self) -> Iterator[Record]:
        """The bad lines since the last call."""
        bad, self._bad = self._bad, []
        return iter(bad)
