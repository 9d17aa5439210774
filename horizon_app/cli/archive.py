"""`horizon runs clone, archive, unarchive`: runs done again, and runs put away."""

from typing import Annotated

import typer

from horizon_app.cli.checkpoints import SetOption
from horizon_app.cli.refusals import exit_codes
from horizon_app.cli.runs import RunArgument, tell_run
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

NameOption = Annotated[str | None, typer.Option("--name", help="The new run's name; that of the spec unless given.")]
StartOption = Annotated[bool, typer.Option("--start/--no-start", help="Whether it may start when its turn comes.")]


def clone_run(
    run_id: RunArgument, settings_given: SetOption = None, name: NameOption = None, start: StartOption = True,
    as_json: JsonOption = False, home: HomeOption = None,
) -> None:  # fmt: skip
    """Make a new run from the spec of another one, as that was sent, with changes."""
    from horizon_app.cli.history import open_history
    from horizon_app.cli.overrides import read_changes

    with exit_codes(), open_history(make_settings(home=home)) as history:
        run = history.clone(run_id, read_changes(settings_given or []), name=name, start=start)
    tell_run(run, f"is {run.state.value}, cloned from {run.cloned_from}", as_json=as_json)


def archive_run(run_id: RunArgument, as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Put an ended run away; nothing of it is lost."""
    _archive(run_id, archived=True, as_json=as_json, home=home)


def unarchive_run(run_id: RunArgument, as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Take a run out of the archive."""
    _archive(run_id, archived=False, as_json=as_json, home=home)


def _archive(run_id: str, *, archived: bool, as_json: bool, home: HomeOption) -> None:
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        run = history.archive(run_id, archived=archived)
    tell_run(run, f"is {'archived' if archived else 'listed again'}", as_json=as_json)
