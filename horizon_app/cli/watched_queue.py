"""All live runs and what waits, as `horizon runs watch` shows them without a run."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from horizon_app.cli.history import History, open_history
from horizon_app.cli.printable import printable, printable_line
from horizon_app.cli.quantities import show_metric, show_seconds
from horizon_app.cli.refusals import CommandFailed
from horizon_app.cli.sparkline import sparkline
from horizon_app.client import NotFound
from horizon_app.contracts.frames import RunFrame, RunGone
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import Run
from horizon_app.contracts.sizes import show_bytes
from horizon_app.control.errors import RunNotFound
from horizon_app.settings import AppSettings

_ROUND_S = 1.0
_HEADINGS = ("state", "step", "left", "loss", "tokens/s", "hit rate", "device / host / disk")
_WIDTHS = ((120, 7), (90, 5), (0, 3))
"""Columns of a terminal -> how many of the headings fit beside the run."""
_TIERS = ("tier/device_bytes", "tier/host_bytes", "tier/disk_bytes")


class WatchedQueue:
    """The live runs and the waiting ones, by device and in order."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def take(self, runs: list[Run]) -> list[Run]:
        """Take in what there is now; gives those that changed. Those that are missing have left."""
        changed = [run for run in runs if self._runs.get(run.id) != run]
        self._runs = {run.id: run for run in runs}
        return changed

    def missing(self, runs: list[Run]) -> list[str]:
        """The runs that were there and are not among these."""
        return sorted(self._runs.keys() - {run.id for run in runs})

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A row for each run; a narrow terminal gets the columns that matter most."""
        num_columns = next(number for width, number in _WIDTHS if options.max_width >= width)
        table = Table(box=None, pad_edge=False, expand=True)
        table.add_column("run", ratio=1, overflow="ellipsis", no_wrap=True)
        for heading in _HEADINGS[:num_columns]:
            table.add_column(heading, justify="left" if heading in ("state", "loss") else "right", no_wrap=True)
        for run in self._runs.values():
            name = Text.assemble(printable(run.name), (f"  {run.id}", "dim"))
            table.add_row(name, *_cells(run)[:num_columns])
        yield table


def rounds(settings: AppSettings, watched: WatchedQueue) -> Iterator[list[RunFrame | RunGone]]:
    """Each second the runs that changed, those that have just left among them; ends when none is live or waits.

    Raises CommandFailed, ControlError, StoreError at the first round; a server that goes away later is waited for.
    """
    first = True
    while True:
        try:
            with open_history(settings) as history:
                runs = _present(history)
                left = [_left(history, run_id) for run_id in watched.missing(runs)]
        except CommandFailed:
            if first:
                raise
        else:
            now = datetime.now(UTC)
            yield [*(RunFrame(time=now, run=run) for run in watched.take(runs)), *left]
            if not runs:
                return
        first = False
        time.sleep(_ROUND_S)


def state_line(frame: RunFrame | RunGone) -> str:
    """A run and its state in one line."""
    if isinstance(frame, RunGone):
        return f"{frame.id} was deleted"
    run = frame.run
    why = f": {run.reason}" if run.reason else ""
    told = f"{run.id} ({run.name}) is {run.state.value}, step {run.step}/{run.total_steps or '?'}{why}"
    return printable_line(told)


def _present(history: History) -> list[Run]:
    return [run for queue in history.queue().devices for run in (*queue.live, *queue.queued)]


def _left(history: History, run_id: str) -> RunFrame | RunGone:
    now = datetime.now(UTC)
    try:
        return RunFrame(time=now, run=history.show(run_id))
    except (RunNotFound, NotFound):
        return RunGone(time=now, id=run_id)


def _cells(run: Run) -> tuple[RenderableType, ...]:
    state = "held" if run.held and run.state is RunState.QUEUED else run.state.value
    if run.state is RunState.QUEUED:
        place = f"{run.queue_position} on {run.queue_device}" if run.queue_position else run.queue_device
        return (f"{state}, {place}", f"0/{run.total_steps or '?'}", "", "", "", "", "")
    metrics = run.metrics
    pace, left = metrics.get("time/step"), ""
    if pace is not None and run.total_steps is not None and run.state is RunState.RUNNING:
        left = show_seconds((run.total_steps - run.step) * pace)
    loss = Text.assemble(show_metric(metrics.get("train/loss"), ".4f"), " ", (sparkline(run.sparkline[-12:]), "cyan"))
    tiers = " / ".join("–" if (used := metrics.get(key)) is None else show_bytes(used) for key in _TIERS)
    speed = show_metric(metrics.get("throughput/tokens_per_second"), ",.0f")
    hits = show_metric(metrics.get("prefetch/hit_rate"), ".1%")
    return (state, f"{run.step}/{run.total_steps or '?'}", left, loss, speed, hits, tiers)
