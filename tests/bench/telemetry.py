"""Telemetry on beside off: a worker's own sink, residency frames included, against one that keeps nothing.

Two processes differ by more than telemetry costs, so both run in one: the sink changes from step to step, in the order
on, off, off, on, and neighbours are compared.

python -m tests.bench.telemetry MODEL STEPS
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.processes import Missing, run_json
from tests.bench.report import Options, Report
from tests.bench.rounds import ratio_line
from tests.bench.work import TOKENS, Work

_MODEL = "50M"
_SEQUENCES = 1
"""Short steps: what telemetry costs in each weighs more, and there are many to take the median of."""
_STEPS = 84
_GOAL = 0.99


class SwitchedSink:
    """Hands everything on to the sink of the moment."""

    def __init__(self, on: Any, off: Any) -> None:
        self._on, self._off = on, off
        self._now = on

    def switch(self, on: bool) -> None:
        """Choose the sink from here on."""
        self._now = self._on if on else self._off

    def layout(self, layout: Any) -> None:
        """Hand it on."""
        self._now.layout(layout)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Hand it on."""
        self._now.metrics(step, values)

    def wants_residency(self) -> bool:
        """What the sink of the moment says."""
        return self._now.wants_residency()

    def residency(self, frame: bytes) -> None:
        """Hand it on."""
        self._now.residency(frame)

    def note(self, kind: str, message: str, data: Mapping[str, Any]) -> None:
        """Hand it on."""
        self._now.note(kind, message, data)

    def knob(self, change: Any) -> None:
        """Hand it on."""
        self._now.knob(change)

    def log(self, level: str, message: str) -> None:
        """Hand it on."""
        self._now.log(level, message)


def is_on(step: int) -> bool:
    """Whether telemetry is on in a step, counted from 0: on, off, off, on, and again."""
    return step % 4 in (0, 3)


def measure(model: str, steps: int) -> dict[str, list[float]]:
    """Seconds of steps with telemetry and of their neighbours without."""
    from horizon_app.engine.telemetry.sink import NullSink
    from horizon_app.worker.event_sink import EventSink
    from tests.bench.engine_loop import SameShape, build_engine

    work = Work(model=model, sequences=_SEQUENCES)
    with tempfile.TemporaryDirectory(prefix="horizon-bench-") as folder:
        journal = EventSink(Path(folder))
        sink = SwitchedSink(journal, NullSink())
        engine = build_engine(work, sink, {}, Path(folder))
        seconds: list[float] = []
        begin = time.perf_counter()

        def on_step(step: int) -> None:
            nonlocal begin
            seconds.append(time.perf_counter() - begin)
            sink.switch(is_on(step))  # steps count from 1, so this is the next one's place
            begin = time.perf_counter()

        engine.train(SameShape(work), steps, lambda: False, on_step)
        engine.close()
        journal.close()
    pairs = range(4, steps - steps % 2, 2)  # the first four warm up
    return {
        "on": [seconds[step if is_on(step) else step + 1] for step in pairs],
        "off": [seconds[step + 1 if is_on(step) else step] for step in pairs],
    }


def run(options: Options, report: Report) -> None:
    """Print the ratio of each round's steps without telemetry to those with it."""
    report.write(f"\nTelemetry, {_MODEL}, bf16, in-memory engine, {_STEPS} steps of {TOKENS} tokens a round\n")
    ratios: list[float | None] = []
    raw: list[Any] = []
    for _ in range(options.rounds):
        answer = run_json([sys.executable, "-m", "tests.bench.telemetry", _MODEL, str(_STEPS)])
        if isinstance(answer, Missing):
            report.write(f"  not available: {answer.reason}\n")
            report.incomplete.append("telemetry")
            return
        raw.append(answer)
        ratios.append(statistics.median(off / on for on, off in zip(answer["on"], answer["off"], strict=True)))
    report.write(f"  {'ratio in one round':<52} {'median':>6} {'min':>6} {'max':>6}\n")
    report.write(ratio_line("speed with telemetry / without", ratios, _GOAL))
    report.raw["telemetry"] = raw


if __name__ == "__main__":
    from tests.bench.loop_process import use_worker_settings

    use_worker_settings()
    sys.stdout.write(json.dumps(measure(sys.argv[1], int(sys.argv[2]))) + "\n")
