"""Knobs that are changed while a run runs: kept until it trains, then handed on. Knows nothing of commands."""

import threading
from typing import Protocol

from horizon_app.contracts.knobs import AskedChange
from horizon_app.worker.intervals import INTERVALS


class TakesChanges(Protocol):
    """What takes up changes between two optimizer steps and tells the sink what came of each."""

    def request(self, change: AskedChange) -> None:
        """Have a change hold before the next optimizer step. From any thread."""
        ...


class KnobRequest:
    """Changes on their way, each once and in order: a run may be changed while its model is still being read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._takers: tuple[TakesChanges, TakesChanges] | None = None
        self._waiting: list[AskedChange] = []

    def ask(self, change: AskedChange) -> None:
        """Hand a change on, or keep it until there is somebody to take it."""
        with self._lock:
            if self._takers is None:
                self._waiting.append(change)
            else:
                self._hand_on(change, *self._takers)

    def serve(self, engine: TakesChanges, intervals: TakesChanges) -> None:
        """Hand what was asked until now to `engine` and `intervals`, and all that comes from now on."""
        with self._lock:
            self._takers = engine, intervals
            for change in self._waiting:
                self._hand_on(change, *self._takers)
            self._waiting.clear()

    def _hand_on(self, change: AskedChange, engine: TakesChanges, intervals: TakesChanges) -> None:
        (intervals if change.knob in INTERVALS else engine).request(change)
