"""Reads the rows of data files; what is wrong with some of them goes into the problems, with file, line and field."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from horizon_app.contracts.spec_words import DataFormat
from horizon_app.data.containers import Container, find_container, read_records
from horizon_app.data.errors import BadRow, ProblemList
from horizon_app.data.files import Unreadable, compression
from horizon_app.data.records import BrokenFile, Record
from horizon_app.data.rows import Row, TextRow
from horizon_app.data.shapes import format_of, reason_of, to_row
from horizon_app.data.texts import in_parts, read_document


@dataclass(slots=True)
class FileReport:
    """What a file turned out to be."""

    path: Path
    container: str = ""
    container_reason: str = ""
    compression: str = ""
    formats: dict[str, str] = field(default_factory=dict[str, str])
    """Format -> what told it."""
    num_rows: int = 0
    """Rows that can be read; a text file is one."""


class RowReader:
    """The rows of all files, in order. May be gone through once."""

    def __init__(
        self, files: Sequence[Path], format: DataFormat, problems: ProblemList, *, most_characters: int | None = None
    ) -> None:
        """Read nothing yet. After `most_characters` of the files it stops; None reads to the end."""
        self.reports: list[FileReport] = []
        self.complete = False
        """Whether everything was read."""
        self._files = files
        self._format = format
        self._problems = problems
        self._most = most_characters
        self._read = 0

    @property
    def num_rows(self) -> int:
        """Rows that could be read until now."""
        return sum(report.num_rows for report in self.reports)

    def __iter__(self) -> Iterator[Row]:
        for path in self._files:
            report = FileReport(path)
            self.reports.append(report)
            try:
                yield from self._file(report)
            except BrokenFile as error:
                self._problems.add(error.message, fix=error.fix, file=str(path), line=error.line or None)
            except Unreadable as error:
                self._problems.add(str(error), fix="check the file, or copy it again", file=str(path))
            if self._full():
                return
            if not report.num_rows and not self._problems.bad_rows.total and not self._problems.found.total:
                self._problems.warn("the file holds no rows", file=str(path))
        self.complete = True

    def _file(self, report: FileReport) -> Iterator[Row]:
        path = report.path
        report.compression = compression(path)
        found = find_container(path, as_text=self._format is DataFormat.TEXT)
        report.container, report.container_reason = found.container.value, found.reason
        if found.container is Container.TEXT:
            yield from self._document(report)
            return
        for record in read_records(path, found, lambda line, key: self._twice(path, line, key)):
            yield from self._rows(report, record)
            self._read += record.num_characters
            if self._full():
                return

    def _document(self, report: FileReport) -> Iterator[Row]:
        if self._format not in (DataFormat.AUTO, DataFormat.TEXT):
            fix = "set data.format to auto or text, or give a file of rows"
            raise BrokenFile(f"data.format is {self._format.value}, but the file is plain text", fix)
        report.formats[DataFormat.TEXT.value] = report.container_reason
        for row in read_document(report.path):
            report.num_rows += row.begins
            yield row
            self._read += len(row.text)
            if self._full():
                return

    def _rows(self, report: FileReport, record: Record) -> Iterator[Row]:
        try:
            if isinstance(record.value, BadRow):
                raise record.value
            format = format_of(record.value) if self._format is DataFormat.AUTO else self._format
            row = to_row(record.value, format, str(report.path), record.line)
        except BadRow as error:
            self._problems.add_row(error, str(report.path), record.line)
            return
        report.num_rows += 1
        if format.value not in report.formats:
            asked = self._format is not DataFormat.AUTO
            report.formats[format.value] = "data.format says so" if asked else reason_of(format)
        if isinstance(row, TextRow):
            yield from in_parts(row.text, row.file, row.line)
        else:
            yield row

    def _twice(self, path: Path, line: int, key: str) -> None:
        self._problems.warn(
            f"the key {key!r} stands twice in one object; the last one counts", file=str(path), line=line, field=key
        )

    def _full(self) -> bool:
        return self._most is not None and self._read > self._most
