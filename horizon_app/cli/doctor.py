"""`horizon doctor`: whether this machine is fit for training, or how a run stands; and doing what a check proposes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from horizon_app.cli.completion import complete_run
from horizon_app.cli.printable import printable, write_json, write_lines
from horizon_app.cli.refusals import ASKED_WRONGLY, FAILED, exit_codes, say
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from pydantic import BaseModel

    from horizon_app.contracts.checks import Check
    from horizon_app.contracts.run_checks import AppliedFix
    from horizon_app.settings import AppSettings

RunOrMachineArgument = Annotated[
    str | None, typer.Argument(metavar="[RUN_ID]", help="This machine unless set.", autocompletion=complete_run)
]
ApplyOption = Annotated[
    str | None, typer.Option("--apply", metavar="CHECK", help="Do what this check of the run proposes.")
]
StartOption = Annotated[bool, typer.Option("--start", help="Where --apply makes a new run: let it start.")]


def doctor(
    run_id: RunOrMachineArgument = None, apply: ApplyOption = None, start: StartOption = False,
    as_json: JsonOption = False, home: HomeOption = None,
) -> None:  # fmt: skip
    """Look at this machine (versions, memory, limits, disk, database, port), or at a run: whether it waits for blocks,
    runs out of memory, diverges or swings. Each with what was found, and what to do where it is not right.

    Exit code: 0 no problems (warnings may be there), 1 at least one problem; with --apply 0 done, 1 there is nothing
    to do.
    """
    if run_id is None and (apply is not None or start):
        say("--apply and --start are about a run: name it")
        raise typer.Exit(ASKED_WRONGLY)
    with exit_codes():
        settings = make_settings(home=home)
        if run_id is None:
            _tell_machine(settings, as_json=as_json)
        elif apply is None:
            _tell_run(settings, run_id, as_json=as_json)
        else:
            _apply(settings, run_id, apply, start=start, as_json=as_json)


def _tell_machine(settings: "AppSettings", *, as_json: bool) -> None:
    from horizon_app.control.doctor.report import examine

    report = examine(settings)
    _tell(report, report.checks, f"home folder {report.home}", as_json=as_json)


def _tell_run(settings: "AppSettings", run_id: str, *, as_json: bool) -> None:
    from horizon_app.cli.history import open_history

    with open_history(settings) as history:
        found = history.checks(run_id)
    _tell(found, found.checks, f"run {found.run_id} is {found.state.value}", as_json=as_json)


def _apply(settings: "AppSettings", run_id: str, check: str, *, start: bool, as_json: bool) -> None:
    from horizon_app.cli.history import open_history
    from horizon_app.client import RequestRefused
    from horizon_app.contracts.problems import SpecRefused
    from horizon_app.control.errors import KnobsRefused

    with open_history(settings) as history:
        try:
            done = history.apply(run_id, check, start=start)
        except (RequestRefused, KnobsRefused) as error:
            raise SpecRefused(error.errors) from error
    if as_json:
        write_json(done.model_dump_json())
    else:
        write_lines(_done_lines(done))


def _done_lines(done: "AppliedFix") -> list[str]:
    from horizon_app.cli.knobs import change_line

    if done.run is not None:
        values = ", ".join(f"{key} {value}" for key, value in done.remedy.set.items())
        held = f", held: `horizon runs start {done.run.id}` lets it go" if done.run.held else ""
        return [f"{done.run.id} is {done.run.state.value} with {values}{held}"]
    return [] if done.knobs is None else [change_line(change) for change in done.knobs.changes]


def _tell(report: "BaseModel", checks: "Sequence[Check]", about: str, *, as_json: bool) -> None:
    from horizon_app.contracts.checks import Verdict, worst

    if as_json:
        write_json(report.model_dump_json())
    else:
        _print(checks, about)
    if worst(checks) is Verdict.PROBLEM:
        raise typer.Exit(FAILED)


def _print(checks: "Sequence[Check]", about: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from horizon_app.contracts.checks import Verdict

    styles = {
        Verdict.UNKNOWN: "dim", Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.PROBLEM: "bold red"
    }  # fmt: skip
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        said = Text(printable(check.evidence))
        if check.verdict.asks_for_something:
            said.append(f"\nexpected: {check.threshold}" if check.threshold else "", style="dim")
            said.append(f"\n{printable(check.fix)}{_way(check)}", style=styles[check.verdict])
        table.add_row(Text(check.verdict.value, style=styles[check.verdict]), check.title, said)
    console = Console()
    console.print(table)
    counts = {verdict: sum(check.verdict is verdict for check in checks) for verdict in Verdict}
    words = ", ".join(f"{number} {verdict.value}" for verdict, number in counts.items() if number)
    console.print(f"\n{words}; {printable(about)}", highlight=False)


def _way(check: "Check") -> str:
    """How to have it done, where a machine can do it."""
    from horizon_app.contracts.run_checks import RunCheck

    return f" (--apply {check.id})" if isinstance(check, RunCheck) and check.remedy is not None else ""
