"""A CPU backend that delays and reorders its copies at random, and poison for freed slots."""

import random
import threading
import time
from collections.abc import Callable

import torch

from horizon_app.engine.streaming.backends.cpu import CpuBackend, CpuEvent, Mover, accumulate
from horizon_app.engine.streaming.backends.protocol import Event

MOVERS = 3
LONGEST_DELAY_S = 0.0004


def poison(slot: torch.Tensor) -> None:
    """What a freed slot holds: NaN, so that a block used before it has arrived can't pass."""
    slot.fill_(float("nan"))


class ChaosBackend(CpuBackend):
    """Keeps the backend's contract and nothing more: copies end late and in any order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._movers = [Mover(f"chaos-{i}") for i in range(MOVERS)]
        self._last_on: dict[int, CpuEvent] = {}
        self._outstanding: list[CpuEvent] = []
        self._last_work: CpuEvent | None = None
        self._lock = threading.Lock()
        self.finish_order: list[int] = []
        self._issued = 0

    def copy_in(self, target: torch.Tensor, source: torch.Tensor, after: Event) -> Event:
        """A copy on a random thread after a random delay."""
        after.wait()
        number, delay = self._issued, self._delay()
        self._issued += 1

        def work() -> None:
            time.sleep(delay)
            target.copy_(source)
            with self._lock:
                self.finish_order.append(number)

        return self._random.choice(self._movers).submit(work)

    def gather_out(self, source: torch.Tensor, target: torch.Tensor, *, add: bool) -> Event:
        """An addition on a random thread; only those on one destination keep their order."""
        before, delay = self._last_on.get(target.data_ptr()), self._delay()

        def work() -> None:
            if before is not None:
                before.wait()
            time.sleep(delay)
            accumulate(source, target, add=add)

        event = self._random.choice(self._movers).submit(work)
        self._last_on[target.data_ptr()] = event
        self._outstanding.append(event)
        return event

    def after_gathers(self, work: Callable[[], None]) -> Event:
        """After all gathers so far, and after the work asked for before."""
        waits, before = self._outstanding, self._last_work
        self._outstanding = []

        def ordered() -> None:
            if before is not None:
                before.wait()
            for event in waits:
                event.wait()
            work()

        self._last_work = self._out.submit(ordered)
        return self._last_work

    def synchronize(self) -> None:
        """Wait for every thread."""
        for mover in self._movers:
            mover.wait_idle()
        super().synchronize()

    def close(self) -> None:
        """End every thread."""
        for mover in self._movers:
            mover.close()
        super().close()

    def _delay(self) -> float:
        return self._random.random() * LONGEST_DELAY_S if self._random.random() < 0.5 else 0.0
