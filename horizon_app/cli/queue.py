"""`horizon runs queue, start, hold, move`: what waits for which device, and in which order."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizon_app.cli.completion import complete_run
from horizon_app.cli.printable import write_lines
from horizon_app.cli.refusals import ASKED_WRONGLY, exit_codes, say
from horizon_app.cli.runs import RunArgument, print_json, tell_run
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from horizon_app.contracts.run_view import DeviceQueue, Run

PositionOption = Annotated[int | None, typer.Option("--position", min=1, help="Place in its queue, from 1.")]
BeforeOption = Annotated[
    str | None,
    typer.Option("--before", metavar="RUN_ID", help="Right before this queued run.", autocompletion=complete_run),
]
LastOption = Annotated[bool, typer.Option("--last", help="Behind all others.")]


def show_queue(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Show what each device does and what waits for it, in order."""
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        answer = history.queue()
    if as_json:
        print_json(answer.model_dump(mode="json"))
    else:
        lines = [line for queue in answer.devices for line in _lines(queue)]
        write_lines(lines or ["nothing runs and nothing waits"])


def start_run(run_id: RunArgument, as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Let a held run start when its turn comes."""
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        run = history.start(run_id)
    _show(run, as_json=as_json)


def hold_run(run_id: RunArgument, as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Keep a queued run from starting; it keeps its place."""
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        run = history.hold(run_id)
    _show(run, as_json=as_json)


def move_run(
    run_id: RunArgument, position: PositionOption = None, before: BeforeOption = None, last: LastOption = False,
    as_json: JsonOption = False, home: HomeOption = None,
) -> None:  # fmt: skip
    """Give a queued run another place in the queue of its device."""
    from horizon_app.cli.history import open_history

    with exit_codes():
        place = _place(position, before, last=last)
        with open_history(make_settings(home=home)) as history:
            run = history.move(run_id, place)
    _show(run, as_json=as_json)


def _place(position: int | None, before: str | None, *, last: bool) -> dict[str, Any]:
    if (position is not None) + (before is not None) + last != 1:
        say("name the new place in one way: --position N, --before RUN_ID or --last")
        raise typer.Exit(ASKED_WRONGLY)
    return {"before": before} if position is None else {"position": position}


def _show(run: "Run", *, as_json: bool) -> None:
    held = ", held" if run.held else ""
    tell_run(run, f"is at place {run.queue_position} of the queue for {run.queue_device}{held}", as_json=as_json)


def _lines(queue: "DeviceQueue") -> list[str]:
    live = [f"  {run.state.value:<9} {run.id}  {run.name}" for run in queue.live]
    waiting = [f"  {run.queue_position:>9} {run.id}  {run.name}{' (held)' if run.held else ''}" for run in queue.queued]
    return [queue.device, *live, *waiting]
