"""`horizon example`: a starter model, a corpus and a spec, all made on the spot and offline."""

from pathlib import Path
from typing import Annotated

import typer

from horizon_app.cli.settings_option import JsonOption


def example(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into; made where it is missing.")],
    as_json: JsonOption = False,
) -> None:
    """Write a starter model (random weights), a corpus and spec.yaml into DIR, without any download."""
    from horizon_app.cli.example_files import write_example
    from horizon_app.cli.printable import write_lines
    from horizon_app.cli.refusals import exit_codes
    from horizon_app.cli.runs import print_json

    with exit_codes():
        write_example(folder)
    spec = folder / "spec.yaml"
    if as_json:
        print_json({"folder": str(folder), "spec": str(spec)})
    else:
        write_lines([f"{spec} is ready: horizon run {spec}"])
