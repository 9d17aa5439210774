"""The command `horizon`: registers the verbs. Imports nothing heavy, so that --help answers at once."""

import os
import sys
from typing import Annotated

import typer

from horizon_app import __version__
from horizon_app.cli.archive import archive_run, clone_run, unarchive_run
from horizon_app.cli.chat import chat
from horizon_app.cli.checkpoints import list_checkpoints, pin_checkpoint, resume_run, save_checkpoint
from horizon_app.cli.compare import compare_runs
from horizon_app.cli.data import data_app
from horizon_app.cli.database import db_app
from horizon_app.cli.doctor import doctor
from horizon_app.cli.example import example
from horizon_app.cli.export import export_run
from horizon_app.cli.knobs import set_knobs
from horizon_app.cli.model import model_app
from horizon_app.cli.pause import pause_run
from horizon_app.cli.queue import hold_run, move_run, show_queue, start_run
from horizon_app.cli.refusals import FAILED, say
from horizon_app.cli.run import run
from horizon_app.cli.runs import runs_app
from horizon_app.cli.serve import serve
from horizon_app.cli.token import token_app
from horizon_app.cli.watch import watch_runs

app = typer.Typer(
    name="horizon",
    help="Train models larger than the device, on one workstation.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"horizon {__version__}")
        raise typer.Exit


@app.callback()
def horizon(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Train models larger than the device, on one workstation."""


app.command()(serve)
app.command()(example)
app.command()(run)
app.command()(chat)
app.command()(doctor)
runs_app.command("pause")(pause_run)
runs_app.command("resume")(resume_run)
runs_app.command("set")(set_knobs)
runs_app.command("queue")(show_queue)
runs_app.command("start")(start_run)
runs_app.command("hold")(hold_run)
runs_app.command("move")(move_run)
runs_app.command("clone")(clone_run)
runs_app.command("archive")(archive_run)
runs_app.command("unarchive")(unarchive_run)
runs_app.command("checkpoint")(save_checkpoint)
runs_app.command("checkpoints")(list_checkpoints)
runs_app.command("pin")(pin_checkpoint)
runs_app.command("compare")(compare_runs)
runs_app.command("export")(export_run)
runs_app.command("watch")(watch_runs)
app.add_typer(runs_app, name="runs")
app.add_typer(model_app, name="model")
app.add_typer(data_app, name="data")
app.add_typer(db_app, name="db")
app.add_typer(token_app, name="token")


def main() -> None:
    """Run the command line; output that nobody reads any more ends it quietly."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            say(f"standard output can't be written: {error.strerror or error}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more at its end
        sys.exit(FAILED)
