"""Belady's MIN: evicts the block whose next use is farthest ahead. Exact, since the schedule is known.

L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
"""

from collections.abc import Callable, Sequence

from horizon_app.engine.policy.next_uses import NextUses
from horizon_app.engine.policy.protocol import NEVER


class Optimal:
    """Farthest next use first, and takes `NEVER` at its word: what is never used again leaves before all others."""

    def __init__(self) -> None:
        self._next_uses = NextUses()

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot."""
        self._next_uses.tell(block, next_use)

    used = inserted

    def removed(self, block: int) -> None:
        """Forget the block."""
        self._next_uses.forget(block)

    def horizon(self, position: int, window_end: int) -> None:
        """A use that should have come before `position` and did not will never come."""
        for block in self._next_uses.take_overdue(position):
            self._next_uses.tell(block, NEVER)

    def resized(self, capacity: int) -> None:
        """Nothing: the order is the same at every size."""

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """The block with the farthest next use that may leave."""
        return self._next_uses.farthest(may_leave)


def next_uses(accesses: Sequence[int]) -> list[int]:
    """For each position, where its block is asked for the next time after it; `NEVER` where it is not."""
    answer = [NEVER] * len(accesses)
    last_seen: dict[int, int] = {}
    for position in range(len(accesses) - 1, -1, -1):
        answer[position] = last_seen.get(accesses[position], NEVER)
        last_seen[accesses[position]] = position
    return answer


def optimal_misses(accesses: Sequence[int], capacity: int) -> int:
    """Misses of Belady's MIN on a list of accesses with an empty arena of `capacity` slots and no prefetch."""
    policy = Optimal()
    resident: set[int] = set()
    misses = 0
    for block, next_use in zip(accesses, next_uses(accesses), strict=True):
        if block in resident:
            policy.used(block, next_use)
            continue
        misses += 1
        if len(resident) == capacity:
            victim = policy.victim(lambda _: True)
            if victim is None:
                raise AssertionError("a full arena always has a victim")
            policy.removed(victim)
            resident.remove(victim)
        resident.add(block)
        policy.inserted(block, next_use)
    return misses
