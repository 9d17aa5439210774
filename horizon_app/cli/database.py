"""`horizon db`: backups and checks of the history."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from horizon_app.cli.printable import write_lines
from horizon_app.cli.refusals import FAILED, exit_codes, say
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

db_app = typer.Typer(no_args_is_help=True, help="Backups and checks of the history.")
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file to make.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]


@db_app.command("backup")
def back_up_history(
    file: FileArgument, force: ForceOption = False, as_json: JsonOption = False, home: HomeOption = None
) -> None:
    """Copy the history as it is now into a file of its own, while runs and the server go on."""
    from horizon_app.cli.runs import print_json
    from horizon_app.contracts.sizes import show_bytes
    from horizon_app.store.backup import back_up

    with exit_codes():
        done = back_up(make_settings(home=home), file, overwrite=force)
    if as_json:
        print_json({"path": str(done.path), "bytes": done.bytes, "runs": done.runs})
    else:
        write_lines([f"{done.path}: {done.runs} runs, {show_bytes(done.bytes)}, checked"])


@db_app.command("check")
def check_history(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Have the database look through all it holds. Exit code: 0 it is whole, 1 it is not."""
    from horizon_app.cli.runs import print_json
    from horizon_app.store.backup import check_database

    with exit_codes():
        health = check_database(make_settings(home=home))
    if as_json:
        print_json(asdict(health))
    else:
        write_lines([f"{health.database}: {health.runs} runs, {len(health.problems) or 'no'} problems"])
        for problem in health.problems:
            say(problem)
    if health.problems:
        raise typer.Exit(FAILED)
