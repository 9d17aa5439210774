"""The settings of one command: its options first, then the environment, then the defaults."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from horizon_app.settings import AppSettings

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Home folder: history, runs, models. Else HORIZON_HOME, else your user data folder."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


def make_settings(*, home: Path | None = None, host: str | None = None, port: int | None = None) -> "AppSettings":
    """The settings with what was given on the command line laid over them. Raises pydantic's ValidationError."""
    from horizon_app.settings import AppSettings

    given = {"home": home, "host": host, "port": port}
    return AppSettings.model_validate({key: value for key, value in given.items() if value is not None})
