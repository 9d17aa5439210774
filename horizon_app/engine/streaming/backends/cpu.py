"""The CPU backend: the arena lies in RAM, and copies are made at once, by all threads, between the products.

A thread that copies beside the products is no gain here: a team of threads waits for its slowest, so that a copy costs
two to three times its share of a core (see `make bench`). Reads from disk do run beside them, on threads that sleep,
and end in the slot itself.
Concurrency is the concern of other backends; tests run the engine on one that delays and reorders its copies.
"""

from collections.abc import Callable

import torch

from horizon_app.engine.memory.disk_queue import DiskEvent
from horizon_app.engine.memory.host_memory import new_memory
from horizon_app.engine.memory.host_pool import HostSpan
from horizon_app.engine.memory.planes import Opening
from horizon_app.engine.streaming.backends.mover import REACHED
from horizon_app.engine.streaming.backends.protocol import Event


class CpuBackend:
    """Slots in RAM."""

    pins_host_memory = False
    shares_host_memory = True

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self._reads: list[DiskEvent] = []

    def new_arena(self, num_slots: int, block_numel: int, dtype: torch.dtype) -> torch.Tensor:
        """Memory of the arena, touched once."""
        return new_memory(num_slots * block_numel, dtype).fill_(0).view(num_slots, block_numel)

    def copy_in(self, target: torch.Tensor, source: HostSpan, after: Event) -> Event:
        """Copy now, or let the disk; compute is synchronous here, so `after` is reached when it is made."""
        after.wait()
        reading = source.read_straight(target)
        if reading is not None:
            self._reads = [read for read in self._reads if not read.went_well()]
            self._reads.append(reading)
            return reading
        with source.opened(source.reading) as content:
            target[: content.numel()].copy_(content)
        return REACHED

    def gather_out(self, source: torch.Tensor, target: HostSpan, *, add: bool) -> Event:
        """Add now."""
        accumulate(source, target, add=add)
        return REACHED

    def after_gathers(self, work: Callable[[], None]) -> Event:
        """Work now."""
        work()
        return REACHED

    def compute_event(self) -> Event:
        """Compute is synchronous: always reached."""
        return REACHED

    def synchronize(self) -> None:
        """Only reads from disk are ever under way."""
        reads, self._reads = self._reads, []
        for read in reads:
            read.wait()

    def close(self) -> None:
        """No thread to end."""


def accumulate(source: torch.Tensor, target: HostSpan, *, add: bool) -> None:
    """Target += source, or target = source, with the cast in the same pass."""
    with target.opened(Opening.CHANGE) as content:
        if add:
            content.add_(source)
        else:
            content.copy_(source)
