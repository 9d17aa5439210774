"""What can be wrong with data, gathered until the end so that all of it is told at once."""

from horizon_app.contracts.problems import FieldProblem

MOST_LISTED = 50


class DataError(Exception):
    """The data can't be trained on. `problems` lists the first of them, with file and line; `total` counts them all."""

    def __init__(self, problems: list[FieldProblem], total: int | None = None) -> None:
        self.problems = problems
        self.total = len(problems) if total is None else total
        lines = [_line(problem) for problem in problems]
        if self.total > len(problems):
            lines.append(f"and {self.total - len(problems)} more problems")
        super().__init__("\n".join(lines))


class ProblemList:
    """Problems found so far: the first `MOST_LISTED` are kept, the rest counted."""

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []
        self.total = 0

    def add(self, message: str, *, fix: str = "", file: str | None = None, line: int | None = None) -> None:
        """Note one thing wrong with a data file."""
        self.total += 1
        if len(self.problems) < MOST_LISTED:
            self.problems.append(FieldProblem(field="data.path", message=message, fix=fix, file=file, line=line))

    def raise_if_any(self) -> None:
        """Raise DataError with everything found."""
        if self.problems:
            raise DataError(self.problems, self.total)


def refused(field: str, message: str, fix: str = "") -> DataError:
    """A DataError with one problem that lies in no line of a file."""
    return DataError([FieldProblem(field=field, message=message, fix=fix)])


def _line(problem: FieldProblem) -> str:
    place = f"{problem.file or problem.field}{f':{problem.line}' if problem.line else ''}"
    return f"{place}: {problem.message}" + (f" ({problem.fix})" if problem.fix else "")
