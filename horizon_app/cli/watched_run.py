"""One run as `horizon runs watch` draws it: what its frames add up to, and how that looks."""

from collections import deque
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from horizon_app.cli.printable import printable
from horizon_app.cli.quantities import show_metric, show_seconds
from horizon_app.cli.sparkline import sparkline
from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.events import (
    CheckChanged,
    CheckpointWritten,
    FactNoted,
    LogWritten,
    MetricsRecorded,
    SampleGenerated,
    StateChanged,
)
from horizon_app.contracts.frames import Frame
from horizon_app.contracts.run_state import ENDED, RunState
from horizon_app.contracts.run_view import Run
from horizon_app.contracts.sizes import show_bytes

LINES_SHOWN = 8
_LOSSES_SHOWN = 48
_STEPS_TIMED = 20
_COLOURS = {
    RunState.RUNNING: "green", RunState.FINISHED: "green", RunState.FAILED: "red", RunState.INTERRUPTED: "red",
    RunState.PAUSED: "yellow", RunState.STOPPING: "yellow", RunState.STOPPED: "yellow",
}  # fmt: skip
_TIERS = (("device", "tier/device_bytes"), ("host", "tier/host_bytes"), ("disk", "tier/disk_bytes"))


class WatchedRun:
    """A run and what has happened in it, frame by frame."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._state, self._reason = run.state, run.reason
        self._step, self._total = run.step, run.total_steps
        self._metrics = dict(run.metrics)
        self._losses = list(run.sparkline)
        self._steps_apart = max(1, round(run.step / len(run.sparkline))) if run.sparkline else 1
        self._seconds: deque[float] = deque(maxlen=_STEPS_TIMED)
        self._lines: deque[tuple[datetime, str, str]] = deque(maxlen=LINES_SHOWN)

    def take(self, frame: Frame) -> None:
        """Take one frame in."""
        if isinstance(frame, MetricsRecorded):
            self._measure(frame)
        elif isinstance(frame, StateChanged):
            self._state, self._reason = frame.state, frame.reason
            if frame.reason:
                self._say(frame.time, "", f"{frame.state.value}: {frame.reason}")
        elif isinstance(frame, LogWritten):
            self._say(frame.time, frame.level, frame.message)
        elif isinstance(frame, CheckpointWritten):
            self._say(frame.time, "", f"checkpoint of step {frame.step}, {show_bytes(frame.bytes)}")
        elif isinstance(frame, CheckChanged):
            self._judge(frame)
        elif isinstance(frame, SampleGenerated):
            self._say(frame.time, "", f"sample of step {frame.step}: {frame.prompt} → {frame.text}")
        elif isinstance(frame, FactNoted):
            self._note(frame)

    def __rich__(self) -> RenderableType:
        """The run in a few lines, as wide as the terminal."""
        parts: list[RenderableType] = [self._head(), self._progress(), self._numbers()]
        if self._lines:
            parts += [Rule(style="dim"), *[_log_line(*line) for line in self._lines]]
        return Padding(Group(*parts), (1, 0))

    def seconds_left(self) -> float | None:
        """Seconds until the last step at the pace of the newest ones; None where nothing tells."""
        if self._total is None or not self._seconds or self._state is not RunState.RUNNING:
            return None
        return (self._total - self._step) * sum(self._seconds) / len(self._seconds)

    def _measure(self, frame: MetricsRecorded) -> None:
        self._metrics.update(frame.values)
        if "train/loss" not in frame.values:
            return  # an evaluation
        if frame.step > self._run.step and frame.step % self._steps_apart == 0:  # those before are there already
            self._losses.append(frame.values["train/loss"])
            if len(self._losses) > _LOSSES_SHOWN:
                self._losses, self._steps_apart = self._losses[1::2], self._steps_apart * 2
        self._step = frame.step
        seconds = frame.values.get("time/step")
        if seconds is not None:
            self._seconds.append(seconds)

    def _note(self, frame: FactNoted) -> None:
        if frame.kind == "plan":
            self._total = frame.data.get("total_steps") or self._total
        elif frame.message and frame.kind not in ("layout", "outcome"):
            self._say(frame.time, "", frame.message)

    def _judge(self, frame: CheckChanged) -> None:
        fix = f"; {frame.fix}" if frame.fix else ""
        level = {Verdict.PROBLEM: "error", Verdict.WARNING: "warning"}.get(frame.new, "")
        self._say(frame.time, level, f"{frame.title}: {frame.new.value}: {frame.evidence}{fix}")

    def _say(self, time: datetime, level: str, message: str) -> None:
        self._lines.append((time, level, printable(message).replace("\n", " ")))

    def _head(self) -> RenderableType:
        grid = Table.grid(expand=True, padding=(0, 1))
        grid.add_column(ratio=1, overflow="ellipsis", no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        name = Text.assemble((printable(self._run.name), "bold"), (f"  {self._run.id}", "dim"))
        style = _COLOURS.get(self._state, "")
        grid.add_row(name, Text(self._state.value, style=style))
        if not self._reason or (self._state not in ENDED and self._state is not RunState.PAUSED):
            return grid
        return Group(grid, Text(printable(self._reason), style=style))

    def _progress(self) -> RenderableType:
        left = self.seconds_left()
        told = f"{self._step}/{self._total or '?'}" + ("" if left is None else f"  {show_seconds(left)} left")
        grid = Table.grid(expand=True, padding=(0, 1))
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_row(ProgressBar(total=self._total or 1, completed=min(self._step, self._total or 0)), told)
        return grid

    def _numbers(self) -> RenderableType:
        metrics = self._metrics
        hits = f"{show_metric(metrics.get('prefetch/hit_rate'), '.1%')} hit rate"
        if metrics.get("prefetch/late_rate"):
            hits += f", {show_metric(metrics['prefetch/late_rate'], '.1%')} late"
        tiers = [f"{tier} {show_bytes(used)}" for tier, key in _TIERS if (used := metrics.get(key))]
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True, min_width=9)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        loss = show_metric(metrics.get("train/loss"), ".4f")
        grid.add_row("loss", Text.assemble(loss, "  ", (sparkline(self._losses), "cyan")))
        if (evaluated := metrics.get("eval/loss")) is not None:
            grid.add_row("eval loss", show_metric(evaluated, ".4f"))
        speed = show_metric(metrics.get("throughput/tokens_per_second"), ",.0f")
        grid.add_row("speed", f"{speed} tokens/s, {hits}")
        grid.add_row("tiers", ", ".join(tiers) or "–")
        return grid


def _log_line(time: datetime, level: str, message: str) -> Text:
    style = {"warning": "yellow", "error": "red", "debug": "dim"}.get(level, "")
    line = Text.assemble((f"{time.astimezone():%H:%M:%S} ", "dim"), (message, style))
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
