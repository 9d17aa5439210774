"""Second chance: the baseline that sees of the past only whether a block was used since it was last looked at."""

from collections import OrderedDict
from collections.abc import Callable


class Clock:
    """Evicts the first block under its hand that was not used since the hand last passed."""

    def __init__(self) -> None:
        self._used: OrderedDict[int, bool] = OrderedDict()  # the hand is at the first, and leaves blocks at the end
        self._unused_arrivals: set[int] = set()

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot, right behind the hand."""
        self._used[block] = False
        self._unused_arrivals.add(block)

    def used(self, block: int, next_use: int) -> None:
        """The block gets a second chance, unless this is the use that it was brought in for."""
        if block in self._unused_arrivals:
            self._unused_arrivals.remove(block)
        else:
            self._used[block] = True

    def removed(self, block: int) -> None:
        """Forget the block."""
        del self._used[block]
        self._unused_arrivals.discard(block)

    def horizon(self, position: int, window_end: int) -> None:
        """Nothing: only the past counts."""

    def resized(self, capacity: int) -> None:
        """Nothing: the hand goes on from where it is."""

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """Move the hand to a block that may leave and has had its second chance; the hand stays there."""
        for _ in range(2 * len(self._used)):  # one round takes the chances away, the next finds who may leave
            block, used = next(iter(self._used.items()))
            if not used and may_leave(block):
                return block
            self._used[block] = False
            self._used.move_to_end(block)
        return None
