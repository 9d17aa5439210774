"""Where the inputs of layers wait between forward and backward, when what is inside the layers is recomputed.

They stay on the device, or move to pages of host memory (which may in turn be on disk) and come back before their
layer's turn.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from horizon_app.engine.memory.host_pool import HostSpan
from horizon_app.engine.memory.planes import Opening, Plane, Visit
from horizon_app.engine.streaming.backends.protocol import Backend, Event
from horizon_app.engine.training.host_tier import InputRoom

NewPlane = Callable[[InputRoom], Plane]
Key = tuple[int, int]  # stage, micro-batch
Group = Mapping[Key, int]
"""What passes the model together, in the order of the way up, each with its number of sequences."""


class HeldInputs:
    """On the device, as they are."""

    num_bytes = 0

    def __init__(self) -> None:
        self._held: dict[Key, torch.Tensor] = {}

    def begin(self, groups: Sequence[Group]) -> None:
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
    events: list[Event]


class HostInputs:
    """In pages of host memory, one for each layer and sequence: their size is the same whatever the micro-batch."""

    def __init__(self, backend: Backend, chunk: int, room: InputRoom, new_plane: NewPlane) -> None:
        """`chunk` is the most elements of one copy. Raises what `new_plane` raises."""
        self._backend, self._chunk, self._new_plane = backend, chunk, new_plane
        self._room, self._plane = room, new_plane(room)
        self._groups: list[Group] = []
        self._pages: dict[Key, range] = {}
        self._leaving: dict[Key, tuple[torch.Size, list[Event]]] = {}
        self._arriving: dict[Key, _Arriving] = {}

    @property
    def num_bytes(self) -> int:
        """Bytes of host memory."""
        return self._plane.num_bytes

    def begin(self, groups: Sequence[Group]) -> None:
        """A new optimizer step: inputs are kept in this order; each group's are taken before the next one's are kept.

        They are taken stage by stage downwards, a stage's in the order in which they were kept.
        """
        self._arriving.clear()
        self._leaving.clear()
        self._groups = list(groups)
        self._pages = {}
        for group in groups:
            first = 0
            for key, sequences in group.items():
                self._pages[key] = range(first, first + sequences)
                first += sequences
        for page in range(self._room.num_pages):  # of a step that was given up
            self._plane.forget(page)
        self._make_room(self._room.page_numel, self._room.dtype)
        self._plane.expect(self._visits())

    def keep(self, key: Key, hidden: torch.Tensor) -> None:
        """Copy a layer's input to the host. Shape: [sequences, ...], all sequences alike."""
        pages = self._pages[key]
        rows = hidden.detach().reshape(len(pages), -1)
        if self._make_room(rows.shape[1], rows.dtype):
            self._plane.expect(self._visits())
        events: list[Event] = []
        for page, row in zip(pages, rows, strict=True):
            for start in range(0, row.numel(), self._chunk):
                part = row[start : start + self._chunk]
                span = HostSpan(self._plane, page, start, start + part.numel())
                events.append(self._backend.gather_out(part, span, add=False))
        self._leaving[key] = (hidden.shape, events)

    def bring(self, key: Key) -> None:
        """Begin to copy a layer's input back to the device."""
        if key not in self._leaving:
            return
        shape, events = self._leaving.pop(key)
        for event in events:
            event.wait()
        pages = self._pages[key]
        hidden = torch.empty(shape, dtype=self._room.dtype, device=self._backend.device)
        rows = hidden.view(len(pages), -1)
        after = self._backend.compute_event()
        spans = [HostSpan(self._plane, page, 0, rows.shape[1], reading=Opening.CONSUME) for page in pages]
        arriving = [self._backend.copy_in(row, span, after) for row, span in zip(rows, spans, strict=True)]
        self._arriving[key] = _Arriving(hidden, arriving)

    def take(self, key: Key) -> torch.Tensor:
        """The layer's input, once it is back."""
        self.bring(key)
        arrived = self._arriving.pop(key)
        for event in arrived.events:
            event.wait()
        return arrived.hidden

    def close(self) -> None:
        """Give the memory back."""
        self._plane.close()

    def _make_room(self, page_numel: int, dtype: torch.dtype) -> bool:
        """Let pages be so large at least, and as many as this step needs. Answers whether there are new ones."""
        num_pages = max((pages.stop for pages in self._pages.values()), default=0)
        room = self._room
        if page_numel <= room.page_numel and dtype == room.dtype and num_pages <= room.num_pages:
            return False
        self._plane.close()
        num_pages = max(num_pages, room.num_pages)
        self._room = dataclasses.replace(room, num_pages=num_pages, page_numel=page_numel, dtype=dtype)
        self._plane = self._new_plane(self._room)
        return True

    def _visits(self) -> list[Visit]:
        visits: list[Visit] = []
        for group in self._groups:
            visits += [Visit(page, Opening.CHANGE, reads=False) for key in group for page in self._pages[key]]
            down = sorted(group, key=lambda key: -key[0])  # a stage's micro-batches stay in their order
            visits += [Visit(page, Opening.CONSUME) for key in down for page in self._pages[key]]
        return visits


LayerInputs = HeldInputs | HostInputs
