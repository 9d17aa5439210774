"""What the schedule says of blocks comes before what the past lets one guess of them."""

from collections import OrderedDict
from collections.abc import Callable

from horizon_app.engine.policy.next_uses import NextUses
from horizon_app.engine.policy.protocol import NEVER, ReplacementPolicy

UNUSED_AGAIN = 2
"""How many times as long as it has been unused already a guessed block is taken to stay unused."""


class Foresight:
    """A policy that knows only the past, told the schedule's next use and the prefetch window.

    A block is one of three things to it. *Told*: its next use is known, and the farthest leaves first, as with Belady.
    *Spent*: it had a told use in this optimizer step and has none any more, so it leaves before all others. *Guessed*:
    the schedule says nothing of it (experts and rows that the data choose), and the policy of the past orders those.

    Between the told and the guessed decides how far ahead their uses are. For a guess, the future is the mirror image
    of the past, longer by a factor: taken for twice the time since the longest unused of them was used, they cost
    least, and never more than recency alone, over forward and backward passes with experts of many kinds (1.0: 2% less
    than recency, sometimes more; 2.0: 5% less). What the window needs is told, and leaves last.

    So with all uses told this is Belady, whatever the policy of the past; with none, it is that policy. It differs from
    `Optimal` in what it makes of `NEVER`, which may mean that nobody knows.
    """

    def __init__(self, past: ReplacementPolicy) -> None:
        """`past` orders the guessed blocks and is told of no others."""
        self._past = past
        self._told = NextUses()
        self._spent: OrderedDict[int, None] = OrderedDict()  # first spent first
        self._last_use: OrderedDict[int, int] = OrderedDict()  # of guessed blocks, longest ago first, counted in uses
        self._now = 0
        self._position = 0  # of the next access, as far as uses tell
        self._position_told = self._window_end = 0

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot."""
        if next_use == NEVER:
            self._guess(block)
        else:
            self._told.tell(block, next_use)

    def used(self, block: int, next_use: int) -> None:
        """A step used the block, and time goes on."""
        self._now += 1
        self._position += 1
        if next_use != NEVER:
            self._leave_past(block)
            self._spent.pop(block, None)
            self._told.tell(block, next_use)
        elif block in self._last_use:
            self._last_use[block] = self._now
            self._last_use.move_to_end(block)
            self._past.used(block, NEVER)
        else:
            if block in self._told:
                self._told.forget(block)
            self._spent[block] = None
            self._spent.move_to_end(block)

    def removed(self, block: int) -> None:
        """The block left."""
        if block in self._told:
            self._told.forget(block)
        elif block in self._spent:
            del self._spent[block]
        else:
            self._leave_past(block)

    def horizon(self, position: int, window_end: int) -> None:
        """Told uses that did not come leave a guess; where the schedule begins anew, so do the spent blocks."""
        if position == 0 or position < self._position_told:
            for block in self._spent:
                self._guess(block)
                self._past.used(block, NEVER)
            self._spent.clear()
        for block in self._told.take_overdue(position):
            self._guess(block)
        self._position = self._position_told = position
        self._window_end = window_end

    def resized(self, capacity: int) -> None:
        """For the policy of the past."""
        self._past.resized(capacity)

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """A spent block; else the told or the guessed one that is needed later; a block of the window at last."""
        spent = next((block for block in self._spent if may_leave(block)), None)
        if spent is not None:
            return spent
        told, guessed = self._told.farthest(may_leave), self._past.victim(may_leave)
        if told is None or guessed is None:
            return guessed if told is None else told
        next_use = self._told[told]
        if next_use < self._window_end:
            return guessed
        unused = self._now - next(iter(self._last_use.values()))
        return told if next_use - self._position > UNUSED_AGAIN * unused else guessed

    def _guess(self, block: int) -> None:
        self._last_use[block] = self._now
        self._past.inserted(block, NEVER)

    def _leave_past(self, block: int) -> None:
        if self._last_use.pop(block, None) is not None:
            self._past.removed(block)
