"""A CPU backend that delays and reorders its copies at random, and poison for freed slots."""

import contextlib
import random
import threading
import time
from collections.abc import Callable

import torch

from horizon_app.engine.errors import EngineError
from horizon_app.engine.memory.host_pool import HostSpan
from horizon_app.engine.streaming.backends.cpu import CpuBackend, accumulate
from horizon_app.engine.streaming.backends.mover import HostEvent, Mover
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
        self._worker = Mover("chaos-work")
        self._last_on: dict[tuple[int, int, int], HostEvent] = {}
        self._outstanding: list[HostEvent] = []
        self._last_work: HostEvent | None = None
        self._lock = threading.Lock()
        self.finish_order: list[int] = []
        self._issued = 0

    def copy_in(self, target: torch.Tensor, source: HostSpan, after: Event) -> Event:
        """A copy on a random thread after a random delay."""
        after.wait()
        number, delay = self._issued, self._delay()
        self._issued += 1
        reading = source.read_straight(target)  # at once: its place among the requests of its page is this one

        def work() -> None:
            time.sleep(delay)
            if reading is not None:
                reading.wait()
            else:
                with source.opened(source.reading) as content:
                    target[: content.numel()].copy_(content)
            with self._lock:
                self.finish_order.append(number)

        return self._random.choice(self._movers).submit(work)

    def gather_out(self, source: torch.Tensor, target: HostSpan, *, add: bool) -> Event:
        """An addition on a random thread; only those on one destination keep their order, behind all work so far."""
        key = (id(target.plane), target.page, target.start)
        befores, delay = (self._last_on.get(key), self._last_work), self._delay()

        def work() -> None:
            for before in befores:
                with contextlib.suppress(EngineError):  # whoever asked for that hears of it
                    if before is not None:
                        before.wait()
            time.sleep(delay)
            accumulate(source, target, add=add)

        event = self._random.choice(self._movers).submit(work)
        self._last_on[key] = event
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

        self._last_work = self._worker.submit(ordered)
        return self._last_work

    def synchronize(self) -> None:
        """Wait for every thread."""
        for mover in (*self._movers, self._worker):
            mover.wait_idle()

    def close(self) -> None:
        """End every thread."""
        for mover in (*self._movers, self._worker):
            mover.close()

    def _delay(self) -> float:
        return self._random.random() * LONGEST_DELAY_S if self._random.random() < 0.5 else 0.0
