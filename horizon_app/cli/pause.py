"""`horizon runs pause`: a run that holds with everything in memory."""

from typing import Annotated

import typer

from horizon_app.cli.refusals import exit_codes
from horizon_app.cli.runs import RunArgument, tell_run
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

SaveOption = Annotated[bool, typer.Option("--save/--no-save", help="Whether a checkpoint is written first.")]


def pause_run(
    run_id: RunArgument, save: SaveOption = False, as_json: JsonOption = False, home: HomeOption = None
) -> None:
    """Have a run hold after the optimizer step that is being done; `horizon runs resume` lets it go on."""
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        run = history.pause(run_id, save=save)
    tell_run(run, "was asked to pause; it holds after the step that is being done", as_json=as_json)
