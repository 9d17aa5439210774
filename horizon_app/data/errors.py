"""What can be wrong with data, gathered until the end so that all of it is told at once."""

from collections.abc import Sequence

from horizon_app.contracts.problems import FieldProblem

MOST_LISTED = 1000
_MOST_TOLD = 50


class DataStopped(Exception):
    """Reading data was given up halfway, as it was asked to be; nothing of it is kept."""


class DataError(Exception):
    """The data can't be trained on. `problems` lists the first of them, with file and line; `total` counts them all."""

    def __init__(self, problems: list[FieldProblem], total: int | None = None) -> None:
        self.problems = problems
        self.total = len(problems) if total is None else total
        lines = [problem_text(problem) for problem in problems[:_MOST_TOLD]]
        if self.total > len(lines):
            lines.append(f"and {self.total - len(lines)} more problems")
        super().__init__("\n".join(lines))


class BadRow(ValueError):
    """What is wrong with one row; `field` is its place inside of the row, for example messages[1].content."""

    def __init__(self, message: str, fix: str = "", field: str = "") -> None:
        self.fix = fix
        self.field = field
        super().__init__(message)


class Findings:
    """Things found in data: the first `MOST_LISTED` are kept, the rest counted."""

    def __init__(self) -> None:
        self.listed: list[FieldProblem] = []
        self.total = 0

    def add(self, found: FieldProblem) -> None:
        """Note one more."""
        self.total += 1
        if len(self.listed) < MOST_LISTED:
            self.listed.append(found)


class ProblemList:
    """Problems and warnings found so far. With `skip_rows`, a bad row is counted and left out, and is no problem."""

    def __init__(self, *, skip_rows: bool = False) -> None:
        self.skip_rows = skip_rows
        self.found = Findings()
        self.warned = Findings()
        self.bad_rows = Findings()

    def add(self, message: str, *, fix: str = "", file: str | None = None, line: int | None = None) -> None:
        """Note one thing wrong with a data file as a whole."""
        self.found.add(FieldProblem(field="data.path", message=message, fix=fix, file=file, line=line))

    def add_row(self, error: BadRow, file: str, line: int) -> None:
        """Note one thing wrong with one row."""
        field = error.field or "data.path"
        problem = FieldProblem(field=field, message=str(error), fix=error.fix, file=file, line=line)
        self.bad_rows.add(problem)
        if not self.skip_rows:
            self.found.add(problem)

    def warn(self, message: str, *, file: str | None = None, line: int | None = None, field: str = "") -> None:
        """Note what the user should know, and can live with."""
        self.warned.add(FieldProblem(field=field or "data.path", message=message, file=file, line=line))

    def raise_if_any(self) -> None:
        """Raise DataError with everything found."""
        if self.found.total:
            raise DataError(self.found.listed, self.found.total)


def refused(field: str, message: str, fix: str = "", *, file: str | None = None) -> DataError:
    """A DataError with one problem that lies in no line of a file."""
    return DataError([FieldProblem(field=field, message=message, fix=fix, file=file)])


def problem_text(problem: FieldProblem) -> str:
    """A problem in one line: place, what is wrong, what to do."""
    place = f"{problem.file or problem.field}{f':{problem.line}' if problem.line else ''}"
    return f"{place}: {problem.message}" + (f" ({problem.fix})" if problem.fix else "")


def counted(findings: Findings, most: int = 5) -> str:
    """The places of the first findings, for example `a.jsonl:3, a.jsonl:9 and others`."""
    return _places(findings.listed[:most], findings.total)


def _places(listed: Sequence[FieldProblem], total: int) -> str:
    named = ", ".join(f"{(p.file or '').rpartition('/')[2]}:{p.line}" for p in listed)
    return named + (" and others" if total > len(listed) else "")
