"""Knobs that are changed while a run runs: kept until there is an engine, then handed on. Knows nothing of commands."""

import logging
import threading
from typing import Literal, Protocol

from horizon_app.contracts.spec_words import Policy
from horizon_app.engine.errors import EngineError

_log = logging.getLogger(__name__)


class LiveEngine(Protocol):
    """What may be asked of an engine while it trains, from any thread."""

    def request(
        self,
        *,
        window: int | None = None,
        auto_window: bool = False,
        max_blocks: int | None = None,
        policy: Policy | None = None,
    ) -> None:
        """Have what is not None hold before the next optimizer step; `auto_window` lets the window adjust itself.

        Raises EngineError for what can't be.
        """
        ...


class KnobRequest:
    """The latest wish for each knob: a run may be changed while its model is still being read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine: LiveEngine | None = None
        self._window: int | Literal["auto"] | None = None
        self._max_blocks: int | None = None
        self._policy: Policy | None = None

    def ask(self, window: int | Literal["auto"] | None, max_blocks: int | None, policy: Policy | None) -> None:
        """Change what is not None. What the engine refuses is logged: the run goes on as it was."""
        with self._lock:
            if self._engine is not None:
                _hand_over(self._engine, window, max_blocks, policy)
                return
            self._window = self._window if window is None else window
            self._max_blocks = self._max_blocks if max_blocks is None else max_blocks
            self._policy = self._policy if policy is None else policy

    def serve(self, engine: LiveEngine) -> None:
        """Hand what was asked until now to `engine`, and all that comes from now on."""
        with self._lock:
            self._engine = engine
            if (self._window, self._max_blocks, self._policy) != (None, None, None):
                _hand_over(engine, self._window, self._max_blocks, self._policy)


def _hand_over(
    engine: LiveEngine, window: int | Literal["auto"] | None, max_blocks: int | None, policy: Policy | None
) -> None:
    auto = window == "auto"
    try:
        engine.request(window=None if auto else window, auto_window=auto, max_blocks=max_blocks, policy=policy)
    except EngineError as error:
        _log.warning("the change is refused: %s", error)
