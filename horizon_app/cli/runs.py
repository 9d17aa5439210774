"""`horizon runs …`: the history and the live runs."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizon_app.cli.completion import complete_run, complete_state
from horizon_app.cli.printable import printable, write_json, write_lines
from horizon_app.cli.refusals import ASKED_WRONGLY, exit_codes, say
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from horizon_app.contracts.run_view import Run

runs_app = typer.Typer(help="The history and the live runs.", no_args_is_help=True)

RunArgument = Annotated[str, typer.Argument(metavar="RUN_ID", autocompletion=complete_run)]
StateOption = Annotated[
    str | None, typer.Option("--state", help="Only runs in this state.", autocompletion=complete_state)
]
TagOption = Annotated[str | None, typer.Option("--tag", help="Only runs with this tag.")]
TextOption = Annotated[str | None, typer.Option("--q", help="A filter: words, field:word, comparisons, and, or, not.")]
ArchivedOption = Annotated[bool, typer.Option("--archived", help="Only archived runs.")]
AllOption = Annotated[bool, typer.Option("--all", help="Archived runs too.")]
SortOption = Annotated[
    str, typer.Option("--sort", help="Field or metric to sort by; a minus before it sorts downwards.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=500, help="Most runs to list.")]
CursorOption = Annotated[str | None, typer.Option("--cursor", help="Next page: the last answer's next_cursor.")]
SaveOption = Annotated[bool, typer.Option("--save/--no-save", help="Whether the model is written before it stops.")]
PinnedOption = Annotated[bool, typer.Option("--pinned", help="Even where checkpoints of it are pinned.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@runs_app.command("list")
def list_runs(  # noqa: PLR0913 - each is an option of the command line
    state: StateOption = None,
    tag: TagOption = None,
    q: TextOption = None,
    archived: ArchivedOption = False,
    all_runs: AllOption = False,
    sort: SortOption = "-created_at",
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """List runs, the newest first."""
    from horizon_app.cli.history import open_history
    from horizon_app.contracts.history_query import RunQuery

    put_away = "all" if all_runs else "true" if archived else None
    query = RunQuery(state=_state(state), tag=tag, q=q, archived=put_away, sort=sort, limit=limit, cursor=cursor)
    with exit_codes(), open_history(make_settings(home=home)) as history:
        page = history.list(query)
    if as_json:
        print_json(page.model_dump(mode="json"))
    elif page.runs:
        _print_table(page.runs, page.total)
    else:
        write_lines(["no runs"])


@runs_app.command("show")
def show_run(run_id: RunArgument, as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Show one run."""
    from horizon_app.cli.history import open_history
    from horizon_app.cli.run_summary import detail_lines

    with exit_codes():
        settings = make_settings(home=home)
        with open_history(settings) as history:
            detail = history.show(run_id)
    if as_json:
        print_json(detail.model_dump(mode="json"))
    else:
        write_lines(detail_lines(detail, settings.runs_dir))


@runs_app.command("stop")
def stop_run(
    run_id: RunArgument, save: SaveOption = True, as_json: JsonOption = False, home: HomeOption = None
) -> None:
    """Stop a live run at its next optimizer step."""
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        run = history.stop(run_id, save=save)
    tell_run(run, f"is {run.state.value}", as_json=as_json)


@runs_app.command("delete")
def delete_run(
    run_id: RunArgument, yes: YesOption = False, pinned: PinnedOption = False, as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:  # fmt: skip
    """Delete a run that is not live, with its checkpoints."""
    from horizon_app.cli.history import open_history
    from horizon_app.contracts.sizes import show_bytes

    with exit_codes(), open_history(make_settings(home=home)) as history:
        # Asked only where somebody can answer: a script that names the run has decided.
        if not yes and sys.stdin.isatty():
            detail = history.show(run_id)
            kept = sum(one.pinned for one in detail.checkpoints)
            saved = f"{len(detail.checkpoints)} checkpoints{f', {kept} of them pinned' if kept else ''}"
            question = f"Delete {detail.id} ({printable(detail.name)}, {detail.state.value}, {saved})?"
            typer.confirm(question, abort=True, err=True)
            pinned = True  # who says yes to that has been told of them
        freed = history.delete(run_id, pinned_too=pinned)
    if as_json:
        print_json({"id": run_id, **freed.model_dump(mode="json")})
    else:
        write_lines([f"{run_id} deleted, {show_bytes(freed.freed_bytes)} freed"])
    if freed.left_bytes:
        say(f"{show_bytes(freed.left_bytes)} could not be removed and stay in {freed.left_in}")


def tell_run(run: "Run", told: str, *, as_json: bool) -> None:
    """A run that something was done with: as JSON, or what is `told` of it behind its id."""
    if as_json:
        print_json(run.model_dump(mode="json"))
    else:
        write_lines([f"{run.id} {told}"])


def _state(word: str | None) -> Any:
    from horizon_app.contracts.run_state import RunState

    if word is None:
        return None
    try:
        return RunState(word)
    except ValueError:
        say(f"--state {word}: there is no such state; states are {', '.join(state.value for state in RunState)}")
        raise typer.Exit(ASKED_WRONGLY) from None


def _print_table(runs: "list[Run]", total: int) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from horizon_app.cli.quantities import show_metric

    table = Table(box=None, pad_edge=False)
    for heading in ("id", "name", "state"):
        table.add_column(heading, overflow="fold")
    for heading in ("step", "loss", "tokens/s"):
        table.add_column(heading, justify="right")
    for run in runs:
        loss, speed = run.metrics.get("train/loss"), run.metrics.get("throughput/tokens_per_second")
        steps = f"{run.step}/{run.total_steps or '?'}"
        name = escape(printable(run.name))
        table.add_row(run.id, name, run.state.value, steps, show_metric(loss, ".4f"), show_metric(speed, ",.0f"))
    console = Console()
    console.print(table)
    if total > len(runs):
        console.print(f"{len(runs)} of {total} runs; --limit and --cursor show more", highlight=False)


def print_json(body: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    write_json(json.dumps(body, ensure_ascii=False, allow_nan=False))
