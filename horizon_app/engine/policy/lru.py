"""Least recently used: the baseline that knows only the past."""

from collections import OrderedDict
from collections.abc import Callable


class Lru:
    """Evicts the block whose last use (or arrival) is longest ago."""

    def __init__(self) -> None:
        self._order: OrderedDict[int, None] = OrderedDict()

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot; it counts as just used."""
        self._order[block] = None

    def used(self, block: int, next_use: int) -> None:
        """Move the block to the young end."""
        self._order.move_to_end(block)

    def removed(self, block: int) -> None:
        """Forget the block."""
        del self._order[block]

    def horizon(self, position: int, window_end: int) -> None:
        """Nothing: only the past counts."""

    def resized(self, capacity: int) -> None:
        """Nothing: the order is the same at every size."""

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """The oldest block that may leave."""
        return next((block for block in self._order if may_leave(block)), None)
