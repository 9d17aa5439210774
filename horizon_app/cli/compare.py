"""`horizon runs compare`: runs side by side."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizon_app.cli.completion import complete_run
from horizon_app.cli.export import write_out
from horizon_app.cli.printable import printable
from horizon_app.cli.refusals import ASKED_WRONGLY, exit_codes, say
from horizon_app.cli.runs import print_json
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from rich.table import Table

    from horizon_app.contracts.comparison import Comparison

RunsArgument = Annotated[
    list[str], typer.Argument(metavar="RUN_ID…", help="Two runs or more, 20 at most.", autocompletion=complete_run)
]
KeysOption = Annotated[str | None, typer.Option("--keys", help="Metric keys with commas between; all unless set.")]
PointsOption = Annotated[int, typer.Option("--max-points", min=3, max=10_000, help="Most points of each series.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a report in HTML with the curves.")
]
AxisOption = Annotated[str, typer.Option("--x", help="What the curves run over: step, tokens or seconds.")]


def compare_runs(
    run_ids: RunsArgument,
    keys: KeysOption = None,
    max_points: PointsOption = 500,
    x: AxisOption = "step",
    output: OutputOption = None,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Show how runs differ: their last metrics, and the keys of their specs that are not the same."""
    from horizon_app.cli.history import open_history
    from horizon_app.contracts.history_query import CompareQuery

    if output is not None and as_json:
        say("--json prints to standard output, --output writes a report: ask for one of them")
        raise typer.Exit(ASKED_WRONGLY)
    wanted = None if keys is None else [key for key in keys.split(",") if key]
    with exit_codes():
        question = CompareQuery(keys=wanted, max_points=max_points, axis=_axis(x))
        with open_history(make_settings(home=home)) as history:
            comparison = history.compare(run_ids, question)
        if output is not None:
            from horizon_app.control.reports.comparison_report import comparison_report

            write_out(iter([comparison_report(comparison).encode()]), output)
            return
    if as_json:
        print_json(comparison.model_dump(mode="json"))
    else:
        _print(comparison)


def _axis(word: str) -> Any:
    from horizon_app.contracts.comparison import Axis
    from horizon_app.control.errors import BadQuery

    try:
        return Axis(word)
    except ValueError:
        known = ", ".join(axis.value for axis in Axis)
        raise BadQuery(field="x", message=f"there is no axis {word[:40]!r}; there are {known}") from None


def _print(comparison: "Comparison") -> None:
    from rich.console import Console

    console = Console()
    console.print(_facts(comparison))
    shown = [key for key in comparison.series if any(key in run.metrics for run in comparison.runs)]
    if shown:
        table = _table(comparison, "last metrics")
        for key in sorted(shown):
            table.add_row(key, *(_number(key, run.metrics.get(key)) for run in comparison.runs))
        console.print("", table, sep="\n")
    if not comparison.differences:
        console.print("\nthe specs are the same", highlight=False)
        return
    table = _table(comparison, "spec differences")
    for difference in comparison.differences:
        values = [difference.values.get(run.id, "–") for run in comparison.runs]
        table.add_row(difference.key, *(_plain(value) for value in values))
    console.print("", table, sep="\n")


def _facts(comparison: "Comparison") -> "Table":
    from horizon_app.cli.quantities import show_metric, show_seconds

    table, runs = _table(comparison, ""), comparison.runs
    table.add_row("id", *(run.id for run in runs))
    table.add_row("state", *(run.state.value for run in runs))
    table.add_row("step", *(f"{run.step}/{run.total_steps or '?'}" for run in runs))
    table.add_row("took", *("–" if run.duration_s is None else show_seconds(run.duration_s) for run in runs))
    table.add_row("best loss", *(_best(run.best_loss, run.best_loss_step) for run in runs))
    table.add_row("last loss", *(show_metric(run.last_loss, ".4f") for run in runs))
    table.add_row("best eval loss", *(show_metric(run.best_eval_loss, ".4f") for run in runs))
    table.add_row("tokens/s", *(show_metric(run.tokens_per_second, ",.0f") for run in runs))
    return table


def _best(loss: float | None, step: int | None) -> str:
    return "–" if loss is None else f"{loss:.4f} at step {step}"


def _table(comparison: "Comparison", corner: str) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(corner, overflow="fold")
    for run in comparison.runs:
        table.add_column(escape(printable(run.name)), overflow="fold", justify="right")
    return table


def _number(key: str, value: float | None) -> str:
    from horizon_app.contracts.sizes import show_bytes

    if value is None:
        return "–"
    return show_bytes(value) if key.endswith("_bytes") else f"{value:,.6g}"


def _plain(value: Any) -> str:
    from rich.markup import escape

    return escape(printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
