"""Where the time of a step goes: products, attention, copies and casts, optimizer, and time in no operator."""

import time
from collections import defaultdict
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd.profiler_util import FunctionEvent

from tests.bench.loop_process import Loop

_PARTS = {
    "attention": ("attention",),
    "products": ("::mm", "addmm", "bmm", "linear", "matmul", "mkldnn", "onednn"),
    "optimizer": ("adamw", "_foreach", "norm_out", "vector_norm"),
    "copies and casts": ("copy", "clone", "::to", "contiguous", "::cat", "zero", "fill", "empty", "resize"),
}
"""Parts by words in the operators' names; the first that matches counts."""
_TRAINING_THREAD = "bench::training_thread"
_MOST_OPERATORS = 15


def profile(loop: Loop, warm_up: int, steps: int) -> dict[str, Any]:
    """What `measure` answers, with `facts["parts"]` and `facts["operators"]`: seconds a step, by part and operator."""
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        experimental_config=_ExperimentalConfig(profile_all_threads=True),
    )
    marks: list[float] = []

    def mark() -> None:
        marks.append(time.perf_counter())
        if len(marks) == warm_up:
            profiler.start()
            with torch.profiler.record_function(_TRAINING_THREAD):
                pass
            marks[-1] = time.perf_counter()
        elif len(marks) == warm_up + steps:
            profiler.stop()

    loop.run(warm_up + steps, mark)
    seconds = [after - before for before, after in zip(marks[warm_up - 1 :], marks[warm_up:], strict=False)]
    facts = {**loop.facts(), **_summary(list(profiler.events() or []), sum(seconds), steps)}
    return {"seconds": seconds, "peak_bytes": 0, "facts": facts}


def part_of(operator: str) -> str:
    """The part of a step that an operator belongs to, by its name."""
    return next((part for part, words in _PARTS.items() if any(word in operator for word in words)), "other operators")


def _summary(events: list[FunctionEvent], wall: float, steps: int) -> dict[str, Any]:
    training = next(event.thread for event in events if event.name == _TRAINING_THREAD)
    beside: dict[str, float] = defaultdict(float)
    parts: dict[str, float] = defaultdict(float)
    operators: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event in events:
        own = event.self_cpu_time_total / 1e6 / steps
        (parts if event.thread == training else beside)[part_of(event.name)] += own
        operators[event.name][0] += own
        operators[event.name][1] += 1 / steps
    parts["in no operator (Python, waiting)"] = wall / steps - sum(parts.values())
    top = sorted(operators.items(), key=lambda item: -item[1][0])[:_MOST_OPERATORS]
    return {
        "parts": {part: [own, beside.get(part, 0.0)] for part, own in sorted(parts.items(), key=lambda item: -item[1])},
        "operators": dict(top),
    }
