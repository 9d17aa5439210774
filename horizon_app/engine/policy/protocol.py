"""What a replacement policy must offer. It orders victims; it never decides what is fetched."""

from collections.abc import Callable
from typing import Protocol

NEVER = 1 << 62
"""Position of a next use that does not come."""


class ReplacementPolicy(Protocol):
    """Told of every arrival, use and departure; asked for a victim when a slot is needed."""

    def inserted(self, block: int, next_use: int) -> None:
        """A block got a slot; `next_use` is the position in the schedule where it is needed."""
        ...

    def used(self, block: int, next_use: int) -> None:
        """A step used the block; `next_use` is where it is needed again, `NEVER` where it is not."""
        ...

    def removed(self, block: int) -> None:
        """The block left."""
        ...

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        """The block that should leave first among those that `may_leave`, or None where there is none."""
        ...
