"""What a backend offers: an arena, copies each way, and events. The engine above is the same for every device.

Ordering: copies may end in any order, except that `gather_out` calls on one destination are applied in call order, and
that what `after_gathers` runs comes after the calls before it and before the calls after it: it may add to what they
write (the rows of a tied embedding, between two micro-batches of the head). A slot is written only after the work that
the `after` event stands for.
"""

from collections.abc import Callable
from typing import Protocol

import torch

from horizon_app.engine.memory.host_pool import HostSpan


class Event(Protocol):
    """A point in time on some stream of work."""

    def done(self) -> bool:
        """Whether it has been reached; never blocks."""
        ...

    def wait(self) -> None:
        """Let the compute that is issued from now on start after it. Raises TransferFailed where the work failed."""
        ...


class Backend(Protocol):
    """One device: its memory, its copies, its events."""

    device: torch.device
    pins_host_memory: bool
    shares_host_memory: bool  # slots are RAM: what only the disk has is read into them, not into the host tier's frames

    def new_arena(self, num_slots: int, block_numel: int, dtype: torch.dtype) -> torch.Tensor:
        """Memory of the arena, touched once. Shape: [num_slots, block_numel]."""
        ...

    def copy_in(self, target: torch.Tensor, source: HostSpan, after: Event) -> Event:
        """Copy `source` to device memory `target`, once `after` has been reached; opens the source meanwhile.

        `target` holds `source.numel` elements or more; where it is on disk, what lies behind them may be lost.
        """
        ...

    def gather_out(self, source: torch.Tensor, target: HostSpan, *, add: bool) -> Event:
        """Add (or write) device memory `source`, as computed so far, to `target`; `source` has at most a block."""
        ...

    def after_gathers(self, work: Callable[[], None]) -> Event:
        """Run `work` on the gathering thread, after all `gather_out` calls made so far and before those to come."""
        ...

    def compute_event(self) -> Event:
        """The compute issued so far."""
        ...

    def synchronize(self) -> None:
        """Block until compute, copies and gathers have ended. Raises TransferFailed where one failed."""
        ...

    def close(self) -> None:
        """Stop the backend's threads."""
        ...
