"""Where the inputs of layers wait between forward and backward, when what is inside the layers is recomputed.

They stay on the device, or move to pages of host memory (which may in turn be on disk) and come back before their
layer's turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from horizon_app.engine.memory.host_pool import HostSpan
from horizon_app.engine.memory.planes import Opening, Plane, Visit
from horizon_app.engine.streaming.backends.protocol import Backend, Event

NewPlane = Callable[[Sequence[int], torch.dtype], Plane]
KEPT_AND_TAKEN = frozenset({Opening.CHANGE, Opening.CONSUME})
Key = tuple[int, int]  # stage, micro-batch


class HeldInputs:
    """On the device, as they are."""

    num_bytes = 0

    def __init__(self) -> None:
        self._held: dict[Key, torch.Tensor] = {}

    def begin(self, groups: Sequence[Sequence[Key]]) -> None:
        """A new optimizer step; what is left of a step that was given up is dropped."""
        self._held.clear()

    def keep(self, key: Key, hidden: torch.Tensor) -> None:
        """Put a layer's input away."""
        self._held[key] = hidden

    def bring(self, key: Key) -> None:
        """It will be taken soon."""

    def take(self, key: Key) -> torch.Tensor:
        """The layer's input, for the last time."""
        return self._held.pop(key)

    def close(self) -> None:
        """Forget everything."""
        self._held.clear()


@dataclass(slots=True)
class _Arriving:
    hidden: torch.Tensor
    event: Event


class HostInputs:
    """In pages of host memory, one for each layer and micro-batch."""

    def __init__(self, backend: Backend, chunk: int, new_plane: NewPlane) -> None:
        """`chunk` is the most elements of one copy; `new_plane` makes a plane from the elements of its pages."""
        self._backend, self._chunk, self._new_plane = backend, chunk, new_plane
        self._plane: Plane | None = None
        self._pages: dict[Key, int] = {}
        self._groups: list[list[Key]] = []
        self._leaving: dict[Key, tuple[torch.Size, list[Event]]] = {}
        self._numel = 0
        self._arriving: dict[Key, _Arriving] = {}

    @property
    def num_bytes(self) -> int:
        """Bytes of host memory."""
        return 0 if self._plane is None else self._plane.num_bytes

    def begin(self, groups: Sequence[Sequence[Key]]) -> None:
        """A new optimizer step: the inputs of each group are kept in this order, and taken in reverse."""
        self._arriving.clear()
        self._leaving.clear()
        pages = {key: page for page, key in enumerate(key for group in groups for key in group)}
        if pages != self._pages or len(groups) != len(self._groups):
            self._pages, self._groups = pages, [list(group) for group in groups]
            self._drop_plane()  # its pages have another order now
        elif self._plane is not None:
            for page in self._pages.values():
                self._plane.forget(page)
            self._plane.expect(self._visits(), KEPT_AND_TAKEN)

    def keep(self, key: Key, hidden: torch.Tensor) -> None:
        """Copy a layer's input to the host. Shape: any; the first one of a step is the largest."""
        plane = self._plane_for(hidden)
        flat = hidden.detach().contiguous().view(-1)
        events: list[Event] = []
        for start in range(0, flat.numel(), self._chunk):
            part = flat[start : start + self._chunk]
            span = HostSpan(plane, self._pages[key], start, start + part.numel())
            events.append(self._backend.gather_out(part, span, add=False))
        self._leaving[key] = (hidden.shape, events)

    def bring(self, key: Key) -> None:
        """Begin to copy a layer's input back to the device."""
        if key not in self._leaving or self._plane is None:
            return
        shape, events = self._leaving.pop(key)
        for event in events:
            event.wait()
        hidden = torch.empty(shape, dtype=self._dtype, device=self._backend.device)
        span = HostSpan(self._plane, self._pages[key], 0, hidden.numel(), reading=Opening.CONSUME)
        event = self._backend.copy_in(hidden.view(-1), span, self._backend.compute_event())
        self._arriving[key] = _Arriving(hidden, event)

    def take(self, key: Key) -> torch.Tensor:
        """The layer's input, once it is back."""
        self.bring(key)
        arrived = self._arriving.pop(key)
        arrived.event.wait()
        return arrived.hidden

    def close(self) -> None:
        """Give the memory back."""
        self._drop_plane()

    def _plane_for(self, hidden: torch.Tensor) -> Plane:
        if self._plane is None or hidden.numel() > self._numel or hidden.dtype != self._dtype:
            self._drop_plane()
            self._numel, self._dtype = hidden.numel(), hidden.dtype
            self._plane = self._new_plane([self._numel] * len(self._pages), hidden.dtype)
            self._plane.expect(self._visits(), KEPT_AND_TAKEN)
        return self._plane

    def _drop_plane(self) -> None:
        if self._plane is not None:
            self._plane.close()
            self._plane = None

    def _visits(self) -> list[Visit]:
        visits: list[Visit] = []
        for group in self._groups:
            pages = [self._pages[key] for key in group]
            visits += [Visit(page, reads=False) for page in pages] + [Visit(page) for page in reversed(pages)]
        return visits


LayerInputs = HeldInputs | HostInputs
