"""One run as it is followed on standard error: a bar on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from horizon_app.cli.printable import printable
from horizon_app.cli.quantities import show_metric
from horizon_app.contracts.events import (
    CheckChanged,
    FactNoted,
    LogWritten,
    MetricsRecorded,
    SampleGenerated,
    StateChanged,
)
from horizon_app.contracts.frames import Frame
from horizon_app.contracts.run_state import RunState

LINE_INTERVAL_S = 10.0
"""Seconds between lines where there is no terminal to draw a bar on."""


class RunProgress:
    """Shows the frames of a run as they come."""

    def __init__(self, console: Console | None = None, total: int | None = None) -> None:
        self._console = console or Console(stderr=True, soft_wrap=True)
        self._draws = self._console.is_terminal
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._draws,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=total, numbers="")
        self._total = total
        self._next_line = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        self._console.print(escape(printable(line)), highlight=False)

    def show(self, frame: Frame) -> None:
        """Take one frame in."""
        if isinstance(frame, MetricsRecorded):
            show = self._show_metrics if "train/loss" in frame.values else self._say_evaluation
            show(frame)
        elif isinstance(frame, SampleGenerated):
            self.say(f"step {frame.step}, sample: {frame.prompt} → {frame.text}")
        elif isinstance(frame, StateChanged):
            self._bar.update(self._task, description=frame.state.value)
            if frame.state is RunState.PAUSED:
                self.say(f"{frame.reason}; `horizon runs resume` lets it go on, Ctrl-C stops it")
        elif isinstance(frame, FactNoted) and frame.kind == "plan":
            self._total = frame.data.get("total_steps")
            self._bar.update(self._task, total=self._total)
        elif isinstance(frame, FactNoted) and frame.kind == "resumed":
            self.say(frame.message)
        elif isinstance(frame, CheckChanged) and frame.new.asks_for_something:
            self.say(f"{frame.title}: {frame.evidence}; {frame.fix}")
        elif isinstance(frame, LogWritten) and frame.level == "warning":
            self.say(f"warning: {frame.message}")

    def _say_evaluation(self, frame: MetricsRecorded) -> None:
        loss, perplexity = frame.values.get("eval/loss"), frame.values.get("eval/perplexity")
        self.say(
            f"step {frame.step}, eval loss {show_metric(loss, '.4f')}, perplexity {show_metric(perplexity, '.2f')}"
        )

    def _show_metrics(self, frame: MetricsRecorded) -> None:
        values = frame.values
        numbers = (
            f"{frame.step}/{self._total or '?'}"
            f"  loss {show_metric(values.get('train/loss'), '.4f')}"
            f"  {show_metric(values.get('throughput/tokens_per_second'), ',.0f')} tokens/s"
            f"  hit rate {show_metric(values.get('prefetch/hit_rate'), '.1%')}"
        )
        self._bar.update(self._task, completed=frame.step, numbers=numbers)
        if not self._draws and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_INTERVAL_S
            self.say(f"step {numbers}")
