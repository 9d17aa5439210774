"""How many streams are served at once, and how many messages each may send."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Seats:
    """Streams that are open, up to a limit. Use on the event loop only."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    @contextmanager
    def one(self) -> Generator[bool]:
        """A seat, where there is one: tells whether there is."""
        free = self.taken < self.most
        self.taken += free
        try:
            yield free
        finally:
            self.taken -= free


class Allowance:
    """Messages that a viewer may send: some at once, then so many a second."""

    BURST = 60
    PER_S = 10.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(self.BURST)
        self._counted_at = clock()

    def spend(self) -> bool:
        """Count one message; False where that is one too many."""
        now = self._clock()
        self._left = min(self.BURST, self._left + (now - self._counted_at) * self.PER_S)
        self._counted_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
