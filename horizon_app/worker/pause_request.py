"""Whether the run is asked to hold between two optimizer steps, and why."""

import threading


class PauseRequest:
    """The latest wish: to hold, or to go on. Asked from any thread; the training thread looks and waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lifted = threading.Event()
        self._reason = ""
        self._save = False

    def ask(self, reason: str, *, save: bool = False) -> None:
        """Have the run hold; the first reason is kept, and one wish for a checkpoint is enough."""
        with self._lock:
            self._reason = self._reason or reason
            self._save = self._save or save
            self._lifted.clear()

    def lift(self) -> None:
        """Have the run go on."""
        with self._lock:
            self._reason, self._save = "", False
            self._lifted.set()

    @property
    def reason(self) -> str:
        """Why the run is to hold; empty: it is not."""
        return self._reason

    def take_save(self) -> bool:
        """Whether a checkpoint is wanted first; true once for each wish."""
        with self._lock:
            wanted, self._save = self._save, False
            return wanted

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or as soon as the wish to hold is lifted."""
        self._lifted.wait(seconds)
