"""`horizon runs set`: knobs of a live run, through the server that runs on the home folder or without one."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizon_app.cli.completion import complete_knob
from horizon_app.cli.printable import write_lines
from horizon_app.cli.refusals import exit_codes
from horizon_app.cli.runs import RunArgument, print_json
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings
from horizon_app.cli.settling import WAIT_S, settle_alone

if TYPE_CHECKING:
    from horizon_app.contracts.knobs import ChangedKnobs, KnobChange
    from horizon_app.settings import AppSettings

ChangesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="KNOB=VALUE …", help="e.g. prefetch_window=5", autocompletion=complete_knob),
]
UndoOption = Annotated[bool, typer.Option("--undo", help="Take back the newest change that was not taken back.")]
VersionOption = Annotated[
    int | None, typer.Option("--if-version", metavar="N", help="Only where knobs_version is N still.")
]
WaitOption = Annotated[float, typer.Option("--wait", min=0, max=60, help="Seconds to wait for the worker's answer.")]


def set_knobs(
    run_id: RunArgument, changes: ChangesArgument = None, undo: UndoOption = False, if_version: VersionOption = None,
    wait: WaitOption = WAIT_S, as_json: JsonOption = False, home: HomeOption = None,
) -> None:  # fmt: skip
    """Change knobs of a live run between two of its optimizer steps, or take a change back.

    Exit code: 0 it holds or is asked for, 1 it can't be changed now, 2 a bad knob or value.
    """
    from horizon_app.cli.overrides import read_changes
    from horizon_app.contracts.problems import FieldProblem, SpecRefused

    with exit_codes():
        wishes = read_changes(changes or [])
        if undo == bool(wishes):
            fix = "for example prefetch_window=5, or --undo"
            raise SpecRefused([FieldProblem(field="", message="name either knobs or --undo", fix=fix)])
        found = _change(make_settings(home=home), run_id, wishes or None, version=if_version, wait_s=wait)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        write_lines(map(change_line, found.changes))


def _change(
    settings: "AppSettings", run_id: str, wishes: dict[str, Any] | None, *, version: int | None, wait_s: float
) -> "ChangedKnobs":
    """Have knobs changed, or without wishes the newest change taken back, and wait for the answer."""
    from horizon_app.cli.local_server import find_horizon, server_refusals
    from horizon_app.client import RequestRefused
    from horizon_app.contracts.problems import SpecRefused
    from horizon_app.control.errors import KnobsRefused

    try:
        server = find_horizon(settings)
        if server is None:
            return _change_alone(settings, run_id, wishes, version=version, wait_s=wait_s)
        with server_refusals(), server:
            try:
                if wishes is None:
                    return server.calls.undo_knobs(run_id, version=version, patience_s=wait_s)
                return server.calls.set_knobs(run_id, wishes, version=version, patience_s=wait_s)
            except RequestRefused as error:
                raise SpecRefused(error.errors) from error
    except KnobsRefused as error:
        raise SpecRefused(error.errors) from error


def _change_alone(
    settings: "AppSettings", run_id: str, wishes: dict[str, Any] | None, *, version: int | None, wait_s: float
) -> "ChangedKnobs":
    """Tell the worker through the run's folder, and read its answer from the journal."""
    from horizon_app.contracts.events import COMMAND_LINE
    from horizon_app.control.workstation import Workstation

    with Workstation(settings) as station:
        station.catch_up()
        if wishes is None:
            asked = station.knobs.undo(run_id, None, who=COMMAND_LINE, version=version)
        else:
            asked = station.knobs.ask(run_id, wishes, who=COMMAND_LINE, version=version)
        return settle_alone(station, asked, wait_s)


def change_line(change: "KnobChange") -> str:
    """A change of a knob in words: what holds from when on, or why not."""
    said = f"{change.knob}: {change.old} → {change.new}"
    if change.step is None:
        return f"{said}, asked for; the worker has not come to it yet"
    if change.message:
        return f"{change.knob}: refused: {change.message}"
    return f"{said} from optimizer step {change.step} on"
