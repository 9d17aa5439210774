"""`python -m tests.support.ending_worker RUN_DIR`: the real worker, which gets a signal after a step.

HORIZON_END_AFTER is the step, HORIZON_END_BY the signal's name (SIGTERM where it is left out).
"""

import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from horizon_app.worker.__main__ import end_process, main
from horizon_app.worker.parts import Builders, real_builders


def ending_builders() -> Builders:
    """The product's, but for an engine that ends its process."""
    real = real_builders()
    end_after = int(os.environ.get("HORIZON_END_AFTER", "0"))
    number = signal.Signals[os.environ.get("HORIZON_END_BY", "SIGTERM")]

    def build(*arguments: Any) -> Any:
        engine: Any = real.engine(*arguments)
        train = engine.train

        def train_and_end(source: Any, total: int, should_stop: Callable[[], bool], on_step: Callable[[int], None]):
            def step_done(step: int) -> None:
                on_step(step)
                if step == end_after:
                    os.kill(os.getpid(), number)

            return train(source, total, should_stop, step_done)

        engine.train = train_and_end
        return engine

    return dataclasses.replace(real, engine=build)


if __name__ == "__main__":
    end_process(main(sys.argv[1:], ending_builders()))
