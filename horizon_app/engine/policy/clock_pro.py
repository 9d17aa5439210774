"""Clock-Pro, as published: recency and the distance between uses, learned from the past alone.

S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective improvement of the CLOCK replacement", USENIX ATC 2005.

All pages are on one clock in the order in which they were placed at its head, and each of the three hands stands at the
oldest page of its kind: the hot hand at a hot page, the cold hand at a cold page that is resident, the test hand at a
page in its test period. So the clock is kept as one queue for each hand. A hand never walks over pages of other kinds
(on a plain ring, the cold hand would go all the way round for each victim while there are few cold pages), and the
number of each page's placement says what lies between two hands.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Page:
    placed: int  # when it was last put at the head
    referenced: bool = False
    awaited: bool = False  # the use that it was brought in for has not come yet
    was_hot: bool = False  # left while hot


class ClockPro:
    """Evicts cold pages; a page that comes back within its test period is hot. How many are to be cold adapts."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._cold_target = 1
        self._placements = 0
        self._hot: OrderedDict[int, _Page] = OrderedDict()
        self._cold: OrderedDict[int, _Page] = OrderedDict()  # resident
        self._absent: OrderedDict[int, _Page] = OrderedDict()  # not resident, in a test period; first left first
        self._in_test: OrderedDict[int, _Page] = OrderedDict()  # cold and absent pages
        self._resident: dict[int, _Page] = {}

    @property
    def num_hot(self) -> int:
        """Hot pages; all of them are resident."""
        return len(self._hot)

    @property
    def num_cold(self) -> int:
        """Cold pages that are resident."""
        return len(self._cold)

    @property
    def num_absent(self) -> int:
        """Pages that left and are still in their test period: at most as many as there are slots."""
        return len(self._absent)

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot: hot if it comes back within its test period, else cold and on test."""
        page = self._absent.pop(block, None)
        if page is None:
            self._place_cold(block, _Page(placed=0, awaited=True))
            return
        del self._in_test[block]
        if not page.was_hot:
            self._adapt(+1)
        self._place_hot(block, _Page(placed=0, awaited=True))

    def used(self, block: int, next_use: int) -> None:
        """Note that the block was used, unless this is the use that it was brought in for."""
        page = self._hot.get(block) or self._cold[block]
        if page.awaited:
            page.awaited = False
        else:
            page.referenced = True

    def removed(self, block: int) -> None:
        """The block left. It stays on the clock if it was hot, or until its test period ends."""
        page = self._hot.pop(block, None)
        if page is not None:
            page.was_hot = True
            self._begin_test(block, page)
        else:
            page = self._cold.pop(block)
        if block in self._in_test:
            self._absent[block] = page
            while len(self._absent) > self._capacity:
                self._move_test_hand()

    def horizon(self, position: int, window_end: int) -> None:
        """Nothing: only the past counts."""

    def resized(self, capacity: int) -> None:
        """Forget the oldest of those that left, if there are more than slots now."""
        self._capacity = capacity
        self._adapt(0)
        while len(self._absent) > capacity:
            self._move_test_hand()
