"""The prefetch window that adjusts itself: wider while compute waits for blocks, narrower again when it never does."""

STALLED_SHARE = 0.02
"""A step that waits longer than this share of its time wants its blocks earlier."""
QUIET_STEPS = 20
"""Steps without waiting after which a narrower window is tried: it leaves more slots to the policy."""
NARROWEST, WIDEST = 1, 8


class AutoWindow:
    """Decides between two optimizer steps."""

    def __init__(self, first: int) -> None:
        self.window = first
        self._quiet = 0
        self._too_narrow = 0  # widest window that was seen to stall; narrower ones are not tried again

    def after_step(self, *, stall_s: float, seconds: float, late: int, misses: int) -> int:
        """The window of the next step, from what this one waited."""
        if stall_s > STALLED_SHARE * seconds and late + misses > 0:
            self._quiet = 0
            self._too_narrow = max(self._too_narrow, self.window)
            self.window = min(WIDEST, self.window + 1)
        else:
            self._quiet += 1
            if self._quiet >= QUIET_STEPS and self.window - 1 > max(self._too_narrow, NARROWEST - 1):
                self._quiet = 0
                self.window -= 1
        return self.window
