"""Blocks in the order of their next uses."""

from bisect import bisect_left, insort
from collections.abc import Callable


class NextUses:
    """Farthest next use first; ties go to the lower block number, so that the order is the same every time.

    One sorted list without leftovers: moving 10,000 entries up by one costs about a microsecond, less than the
    comparisons of a heap, and a heap would keep what was told before for the length of a run.
    """

    def __init__(self) -> None:
        self._order: list[tuple[int, int]] = []  # (next use, -block), nearest first
        self._next_use: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, block: int) -> bool:
        return block in self._next_use

    def __getitem__(self, block: int) -> int:
        return self._next_use[block]

    def tell(self, block: int, next_use: int) -> None:
        """The block, known or new, is needed at `next_use`."""
        before = self._next_use.get(block)
        if before == next_use:
            return
        if before is not None:
            self._drop(block, before)
        self._next_use[block] = next_use
        insort(self._order, (next_use, -block))

    def forget(self, block: int) -> None:
        """The block is gone."""
        self._drop(block, self._next_use.pop(block))

    def take_overdue(self, position: int) -> list[int]:
        """Forget the blocks whose next use should have come before `position`; answers them, longest overdue first."""
        count = bisect_left(self._order, (position,))
        overdue = [-negative for _, negative in self._order[:count]]
        del self._order[:count]
        for block in overdue:
            del self._next_use[block]
        return overdue

    def farthest(self, may_leave: Callable[[int], bool]) -> int | None:
        """The block whose next use is farthest ahead among those that `may_leave`."""
        return next((-negative for _, negative in reversed(self._order) if may_leave(-negative)), None)

    def _drop(self, block: int, next_use: int) -> None:
        del self._order[bisect_left(self._order, (next_use, -block))]
