"""`horizon doctor`: whether this machine is fit for training."""

from typing import TYPE_CHECKING

import typer

from horizon_app.cli.printable import printable, write_json
from horizon_app.cli.refusals import FAILED, exit_codes
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from horizon_app.contracts.checks import MachineReport


def doctor(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Look at versions, processor, memory, limits, disk, database and port, and say what to do where one is not right.

    Exit code: 0 no problems (warnings may be there), 1 at least one problem.
    """
    from horizon_app.contracts.checks import Verdict
    from horizon_app.control.doctor.report import examine

    with exit_codes():
        report = examine(make_settings(home=home))
    if as_json:
        write_json(report.model_dump_json())
    else:
        _print(report)
    if report.verdict is Verdict.PROBLEM:
        raise typer.Exit(FAILED)


def _print(report: "MachineReport") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from horizon_app.contracts.checks import Verdict

    styles = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.PROBLEM: "bold red"}
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in report.checks:
        said = Text(printable(check.evidence))
        if check.verdict is not Verdict.OK:
            said.append(f"\nexpected: {check.threshold}" if check.threshold else "", style="dim")
            said.append(f"\n{check.fix}", style=styles[check.verdict])
        table.add_row(Text(check.verdict.value, style=styles[check.verdict]), check.title, said)
    console = Console()
    console.print(table)
    counts = {verdict: sum(check.verdict is verdict for check in report.checks) for verdict in Verdict}
    words = ", ".join(f"{number} {verdict.value}" for verdict, number in counts.items() if number)
    console.print(f"\n{words}; home folder {printable(str(report.home))}", highlight=False)
