"""Two policies of the past in one: the better one on the accesses at hand chooses."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from horizon_app.engine.policy.protocol import ReplacementPolicy

LEAD = 32
"""By how many disputes the challenger must be ahead before it chooses: less is within what chance does."""
MOST = 64
"""No lead counts for more, on either side, so that a change in the accesses is noticed."""


@dataclass(frozen=True, slots=True)
class _Dispute:
    """One block left and another stayed; the policy that did not choose wanted it the other way round."""

    stayed: int
    chosen_by_challenger: bool


class Contest:
    """Lets a challenger choose victims only while its choices prove better than the incumbent's.

    Each time the two would let different blocks go, the one whose block is needed again first was wrong. Clock-Pro
    needs that guard: where blocks are used in the order opposite to the last time, as forward and backward do, what
    came last is needed first, and Clock-Pro takes just that for the least worthy.
    """

    def __init__(self, *, challenger: ReplacementPolicy, incumbent: ReplacementPolicy, capacity: int) -> None:
        """`capacity`: slots of the tier, and so many open disputes are remembered."""
        self._challenger, self._incumbent, self._capacity = challenger, incumbent, capacity
        self._lead = 0  # of the challenger
        self._offered: tuple[int, _Dispute] | None = None  # what is in dispute as soon as the block leaves
        self._disputes: OrderedDict[int, _Dispute] = OrderedDict()  # by the block that left
        self._left_for: dict[int, set[int]] = {}  # by the block that stayed: those that left

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot, so it is needed."""
        self._settle(block)
        self._challenger.inserted(block, next_use)
        self._incumbent.inserted(block, next_use)

    def used(self, block: int, next_use: int) -> None:
        """A step used the block."""
        self._settle(block)
        self._challenger.used(block, next_use)
        self._incumbent.used(block, next_use)

    def removed(self, block: int) -> None:
        """The block left; time will tell whether that was right."""
        self._challenger.removed(block)
        self._incumbent.removed(block)
        if self._offered is not None and self._offered[0] == block:
            dispute = self._offered[1]
            self._offered = None
            self._disputes[block] = dispute
            self._left_for.setdefault(dispute.stayed, set()).add(block)
            self._bound_disputes()

    def horizon(self, position: int, window_end: int) -> None:
        """For both."""
        self._challenger.horizon(position, window_end)
        self._incumbent.horizon(position, window_end)

    def resized(self, capacity: int) -> None:
        """For both; the oldest disputes beyond the new size are forgotten."""
        self._challenger.resized(capacity)
        self._incumbent.resized(capacity)
        self._capacity = capacity
        self._bound_disputes()

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """The choice of the one that leads."""
        bold, safe = self._challenger.victim(may_leave), self._incumbent.victim(may_leave)
        self._offered = None
        if bold is None or safe is None or bold == safe:
            return safe
        trusted = self._lead >= LEAD
        victim, stays = (bold, safe) if trusted else (safe, bold)
        self._offered = victim, _Dispute(stays, trusted)
        return victim

    def _settle(self, needed: int) -> None:
        """The block is needed: who let it go was wrong, who let others go in its place was right."""
        if needed in self._disputes:
            self._count(right=not self._close(needed).chosen_by_challenger)
        for left in sorted(self._left_for.get(needed, ())):
            self._count(right=self._close(left).chosen_by_challenger)

    def _close(self, left: int) -> _Dispute:
        dispute = self._disputes.pop(left)
        others = self._left_for[dispute.stayed]
        others.remove(left)
        if not others:
            del self._left_for[dispute.stayed]
        return dispute

    def _count(self, *, right: bool) -> None:
        self._lead = max(-MOST, min(MOST, self._lead + (1 if right else -1)))

    def _bound_disputes(self) -> None:
        while len(self._disputes) > self._capacity:
            self._close(next(iter(self._disputes)))
