"""`horizon example`: a starter model, a corpus and a spec, all made on the spot and offline."""

from pathlib import Path
from typing import Annotated

import typer


def example(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into; made where it is missing.")],
) -> None:
    """Write a starter model (random weights), a corpus and spec.yaml into DIR, without any download."""
    from horizon_app.cli.example_files import write_example
    from horizon_app.cli.refusals import exit_codes

    with exit_codes():
        write_example(folder)
        typer.echo(f"{folder / 'spec.yaml'} is ready: horizon run {folder / 'spec.yaml'}")
