"""Belady's MIN: evicts the block whose next use is farthest ahead. Exact, since the schedule is known.

L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
"""

import heapq
from collections.abc import Callable, Sequence

from horizon_app.engine.policy.protocol import NEVER


class Optimal:
    """Farthest next use first; ties go to the lower block number, so that the choice is the same every time."""

    def __init__(self) -> None:
        self._next_use: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot."""
        self._next_use[block] = next_use
        heapq.heappush(self._heap, (-next_use, block))

    used = inserted

    def removed(self, block: int) -> None:
        """Forget the block; its heap entries die with it."""
        del self._next_use[block]

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """The block with the farthest next use that may leave."""
        kept: list[tuple[int, int]] = []
        found: int | None = None
        while self._heap and found is None:
            negative, block = self._heap[0]
            if self._next_use.get(block) != -negative:
                heapq.heappop(self._heap)
            elif may_leave(block):
                found = block
            else:
                kept.append(heapq.heappop(self._heap))
        for entry in kept:
            heapq.heappush(self._heap, entry)
        return found


def optimal_misses(accesses: Sequence[int], capacity: int) -> int:
    """Misses of Belady's MIN on a list of accesses with an empty arena of `capacity` slots and no prefetch."""
    next_use = [NEVER] * len(accesses)
    last_seen: dict[int, int] = {}
    for position in range(len(accesses) - 1, -1, -1):
        next_use[position] = last_seen.get(accesses[position], NEVER)
        last_seen[accesses[position]] = position
    policy = Optimal()
    resident: set[int] = set()
    misses = 0
    for position, block in enumerate(accesses):
        if block in resident:
            policy.used(block, next_use[position])
            continue
        misses += 1
        if len(resident) == capacity:
            victim = policy.victim(lambda _: True)
            if victim is None:
                raise AssertionError("a full arena always has a victim")
            policy.removed(victim)
            resident.remove(victim)
        resident.add(block)
        policy.inserted(block, next_use[position])
    return misses
