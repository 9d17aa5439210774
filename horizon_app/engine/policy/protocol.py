"""What a replacement policy must offer. It orders victims; it never decides what is fetched."""

from collections.abc import Callable
from typing import Protocol

NEVER = 1 << 62
"""Position of a next use that does not come, or that nobody can know."""


class ReplacementPolicy(Protocol):
    """Told of every arrival, use and departure on one tier; asked for a victim when a slot is needed.

    It lives as long as the run. Positions count the accesses of one optimizer step, and the next step begins again at
    0: blocks that stay on the tier across that border are told their new next use by `used`.
    """

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot; `next_use` is the position in the schedule where it is needed."""
        ...

    def used(self, block: int, next_use: int) -> None:
        """A step used the block; `next_use` is where it is needed again, `NEVER` where it is not or nobody knows.

        The first use after an arrival is the one that the block was brought in for.
        """
        ...

    def removed(self, block: int) -> None:
        """The block left, as a victim or because its content is out of date. What was learned of it is kept."""
        ...

    def horizon(self, position: int, window_end: int) -> None:
        """The schedule stands before `position`, and prefetch looks ahead as far as before `window_end`."""
        ...

    def resized(self, capacity: int) -> None:
        """The tier has `capacity` slots now."""
        ...

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """The block that should leave first among those that `may_leave`, or None where there is none.

        It stays until `removed` says that it left; asked again meanwhile, the answer is the same.
        """
        ...
