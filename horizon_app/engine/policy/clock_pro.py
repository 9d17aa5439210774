"""Clock-Pro, as published: recency and the distance between uses, learned from the past alone.

S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective improvement of the CLOCK replacement", USENIX ATC 2005.

All pages are on one clock in the order in which they were placed at its head, and each of the three hands stands at the
oldest page of its kind: the hot hand at a hot page, the cold hand at a cold page that is resident, the test hand at a
page in its test period. So the clock is kept as one queue for each hand: a hand never walks over pages of other kinds
(on a plain ring, the cold hand would go all the way round for each victim while there are few cold pages), and the
numbers of their placements say which pages lie between two hands.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Page:
    placed: int = 0  # number of its last placement at the head
    awaited: bool = True  # the use that it was brought in for has not come yet
    referenced: bool = False
    was_hot: bool = False  # when it left


class ClockPro:
    """Evicts cold pages; a page that comes back within its test period is hot. How many are to be cold adapts."""

    def __init__(self, capacity: int) -> None:
        """`capacity`: slots of the tier, and so many pages that left are remembered."""
        self._capacity = capacity
        self._cold_target = 1
        self._placements = 0
        self._hot: OrderedDict[int, _Page] = OrderedDict()
        self._cold: OrderedDict[int, _Page] = OrderedDict()
        self._absent: dict[int, _Page] = {}
        self._in_test: OrderedDict[int, _Page] = OrderedDict()  # all that are absent, and some that are cold

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot: it is hot if it comes back within its test period, else cold and on test."""
        before = self._absent.pop(block, None)
        if before is None:
            self._place(self._cold, block, _Page(), on_test=True)
            return
        del self._in_test[block]
        if not before.was_hot:
            self._adapt(+1)
        self._place(self._hot, block, _Page())

    def used(self, block: int, next_use: int) -> None:
        """Note that the block was used, unless this is the use that it was brought in for."""
        page = self._hot.get(block) or self._cold[block]
        page.referenced = not page.awaited
        page.awaited = False

    def removed(self, block: int) -> None:
        """The block left. It is remembered until its test period ends; for a hot one that begins now."""
        page = self._hot.pop(block, None)
        if page is not None:
            page.was_hot = True
            self._place(self._absent, block, page, on_test=True)
        else:
            page = self._cold.pop(block)
            if block in self._in_test:
                self._absent[block] = page
        self._bound_absent()

    def horizon(self, position: int, window_end: int) -> None:
        """Nothing: only the past counts."""

    def resized(self, capacity: int) -> None:
        """As many pages that left are remembered as there are slots now; the oldest are forgotten."""
        self._capacity = capacity
        self._adapt(0)
        self._bound_absent()

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """Move the cold hand to an unreferenced page that may leave; a hot one only where no cold one may leave."""
        kept = 0  # cold pages in a row that may not leave
        while kept < len(self._cold) or (self._hot and len(self._cold) < self._cold_target):
            if self._hot and len(self._cold) < self._cold_target:
                self._move_hot_hand()
                continue
            block, page = next(iter(self._cold.items()))
            if page.referenced:
                self._pass_referenced(block, page)
                kept = 0
            elif may_leave(block):
                return block
            else:
                self._cold.move_to_end(block)  # the cold hand passes it, though it stays where it is on the clock
                kept += 1
        return next((block for block in self._hot if may_leave(block)), None)

    def _pass_referenced(self, block: int, page: _Page) -> None:
        """A cold page that was used goes to the head; used within its test period, it is hot from now on."""
        page.referenced = False
        del self._cold[block]
        if self._in_test.pop(block, None) is None:
            self._place(self._cold, block, page, on_test=True)
        else:
            self._adapt(+1)
            self._place(self._hot, block, page)

    def _move_hot_hand(self) -> None:
        """The oldest hot page becomes cold, or is spared once if it was used; test periods end up to the next one."""
        block, page = self._hot.popitem(last=False)
        self._place(self._hot if page.referenced else self._cold, block, page)
        page.referenced = False
        if self._hot:
            stands_at = next(iter(self._hot.values())).placed
            while self._in_test and next(iter(self._in_test.values())).placed < stands_at:
                self._move_test_hand()

    def _move_test_hand(self) -> None:
        """End the oldest test period. One in which the page was not used again says that fewer should be cold."""
        block, page = self._in_test.popitem(last=False)
        self._absent.pop(block, None)
        if not page.referenced and not page.was_hot:
            self._adapt(-1)

    def _bound_absent(self) -> None:
        while len(self._absent) > self._capacity:
            self._move_test_hand()

    def _adapt(self, change: int) -> None:
        self._cold_target = max(1, min(self._capacity, self._cold_target + change))

    def _place(self, queue: dict[int, _Page], block: int, page: _Page, *, on_test: bool = False) -> None:
        """Put the page at the head of the clock."""
        self._placements += 1
        page.placed = self._placements
        queue[block] = page
        if on_test:
            self._in_test[block] = page
