"""From exceptions to one line on standard error and an exit code: 1 it failed, 2 it was asked wrongly."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from horizon_app.cli.printable import printable

if TYPE_CHECKING:
    from horizon_app.contracts.problems import SpecRefused

FAILED = 1
ASKED_WRONGLY = 2
INTERRUPTED = 130


class CommandFailed(Exception):
    """A command that could not do what it was asked; the text is ready to print."""


@contextmanager
def exit_codes() -> Generator[None]:
    """Turn what a command may raise into its message and exit code."""
    from pydantic import ValidationError

    from horizon_app.contracts.problems import SpecRefused
    from horizon_app.control.errors import BadQuery, ControlError
    from horizon_app.store.errors import StoreError

    try:
        yield
    except SpecRefused as refused:
        say_problems(refused)
        raise typer.Exit(ASKED_WRONGLY) from None
    except ValidationError as error:
        for problem in error.errors():
            say(f"HORIZON_{'.'.join(str(part) for part in problem['loc']).upper()}: {problem['msg']}")
        raise typer.Exit(ASKED_WRONGLY) from None
    except BadQuery as error:
        say(f"--{error.field}: {error}")
        raise typer.Exit(ASKED_WRONGLY) from None
    except (CommandFailed, ControlError, StoreError) as error:
        say(str(error))
        raise typer.Exit(FAILED) from None
    except BrokenPipeError:
        raise  # whoever read the output has left: `main` ends quietly
    except OSError as error:
        say(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        raise typer.Exit(FAILED) from None


def say(line: str) -> None:
    """Write one line to standard error."""
    sys.stderr.write(f"horizon: {printable(line)}\n")


def say_problems(refused: "SpecRefused") -> None:
    """Write a line for each problem to standard error."""
    from horizon_app.cli.problem_lines import problem_line

    for problem in refused.errors:
        say(problem_line(problem))
