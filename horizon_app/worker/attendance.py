"""Whether anybody still watches a paused run: who does touches a file in its folder now and then."""

import time
from collections.abc import Callable
from pathlib import Path

ATTENDED = "attended"


class Attendance:
    """Counts the time since the file was last touched by a clock that stands still while the machine sleeps."""

    def __init__(self, run_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = run_dir / ATTENDED
        self._clock = clock
        self._seen = (self._touched(), clock())

    def lonely_s(self) -> float:
        """Seconds since somebody was last seen to watch, or since this began to look. Ask often."""
        touched = self._touched()
        if touched != self._seen[0]:
            self._seen = (touched, self._clock())
        return self._clock() - self._seen[1]

    def _touched(self) -> int:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return 0  # nobody has ever watched it
