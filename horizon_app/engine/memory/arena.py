"""The arena: the device tier's memory, `max_gpu_blocks` slots of one block each, allocated once."""

from collections.abc import Callable

import torch


class SlotNotTaken(AssertionError):
    """A slot given back twice: a fault of the engine, never of its user."""


class Arena:
    """Slots and which of them are free. Knows nothing of blocks."""

    def __init__(self, storage: torch.Tensor, on_release: Callable[[torch.Tensor], None] | None = None) -> None:
        """Shapes: `storage` is [slots, elements of a block]. `on_release` gets each freed slot (tests poison it)."""
        self._on_release = on_release
        self._most_used = self._recent_most_used = 0
        self._fill(storage)

    def empty(self) -> None:
        """Let go of the memory, so that there is room for another size. Raises SlotNotTaken where slots are in use."""
        if self.num_used:
            raise SlotNotTaken(f"the arena changes its size, but {self.num_used} slots are in use")
        self._fill(self._storage[:0].clone())

    def refill(self, storage: torch.Tensor) -> None:
        """Go on with other memory. Shape: [slots, elements of a block]."""
        self.empty()
        self._fill(storage)

    def _fill(self, storage: torch.Tensor) -> None:
        self._storage = storage
        self._free = list(range(storage.shape[0] - 1, -1, -1))
        self._taken = bytearray(storage.shape[0])
        for slot in range(storage.shape[0]):
            if self._on_release is not None:
                self._on_release(storage[slot])

    @property
    def num_slots(self) -> int:
        """Slots in all."""
        return int(self._storage.shape[0])

    @property
    def num_used(self) -> int:
        """Slots taken now."""
        return self.num_slots - len(self._free)

    @property
    def most_used(self) -> int:
        """The highest number of slots that were ever taken at once."""
        return self._most_used

    def most_used_lately(self) -> int:
        """The highest number of slots taken at once since the last call."""
        recent, self._recent_most_used = self._recent_most_used, self.num_used
        return recent

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot."""
        return int(self._storage.shape[1]) * self._storage.element_size()

    def take(self) -> int | None:
        """A free slot, or None where all are taken."""
        if not self._free:
            return None
        slot = self._free.pop()
        self._taken[slot] = 1
        self._recent_most_used = max(self._recent_most_used, self.num_used)
        self._most_used = max(self._most_used, self.num_used)
        return slot

    def release(self, slot: int) -> None:
        """Give a slot back; whatever was in it is gone. Raises SlotNotTaken."""
        if not self._taken[slot]:
            raise SlotNotTaken(f"slot {slot} is given back, but it is free already")
        self._taken[slot] = 0
        if self._on_release is not None:
            self._on_release(self._storage[slot])
        self._free.append(slot)

    def tensor(self, slot: int) -> torch.Tensor:
        """The slot's memory. Shape: [elements of a block]."""
        return self._storage[slot]
