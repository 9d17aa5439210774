"""The child's side of a measurement: one loop in a process of its own, which prints its figures as JSON.

python -m tests.bench.loop_process REQUEST, with REQUEST the JSON of `tests.bench.processes.Request`. Nothing heavy is
imported before the loop's own settings of allocator and threads are in place.
"""

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Mark = Callable[[], None]


def _no_facts() -> dict[str, Any]:
    return {}


@dataclass(kw_only=True, slots=True)
class Loop:
    """A training loop, built and ready. `run(steps, mark)` trains that many steps and calls `mark` after each."""

    run: Callable[[int, Mark], object]
    facts: Callable[[], dict[str, Any]] = field(default=_no_facts)
    close: Callable[[], object] = field(default=lambda: None)


def use_worker_settings() -> None:
    """What a worker does before it imports torch."""
    from horizon_app.worker.environment import prepare_process

    prepare_process()


def measure(loop: Loop, warm_up: int, steps: int) -> dict[str, Any]:
    """Seconds of each step after the warm-up, and the peak memory.

    What the last step puts off is not counted, since the first one does what the warm-up has put off: as many updates
    as steps.
    """
    marks: list[float] = []
    loop.run(warm_up + steps, lambda: marks.append(time.perf_counter()))
    seconds = [after - before for before, after in zip(marks[warm_up - 1 :], marks[warm_up:], strict=False)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "peak_bytes": peak, "facts": loop.facts()}


def main(request: dict[str, Any]) -> None:
    """Build the loop that the request names and measure it."""
    if request["worker_settings"]:
        use_worker_settings()
    from tests.bench.work import Work

    module, _, name = request["build"].partition(":")
    loop: Loop = getattr(importlib.import_module(module), name)(Work(**request["work"]), **request["options"])
    if request["profile"]:
        from tests.bench.part_times import profile

        measured = profile(loop, request["warm_up"], request["steps"])
    else:
        measured = measure(loop, request["warm_up"], request["steps"])
    loop.close()
    sys.stdout.write(json.dumps(measured) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
