"""Problems as lines of a terminal: place first, as compilers write it."""

from horizon_app.contracts.problems import FieldProblem


def problem_line(problem: FieldProblem) -> str:
    """One problem in one line: file, line, field, what is wrong, what to do."""
    place = f"{problem.file or ''}{f':{problem.line}' if problem.line else ''}"
    field = "" if problem.message.startswith(problem.field) else problem.field
    parts = [part for part in (place, field, problem.message) if part]
    return ": ".join(parts) + (f" ({problem.fix})" if problem.fix else "")
