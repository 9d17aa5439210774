"""Where the engine's facts go. Knows nothing of journals, sockets or databases."""

from collections.abc import Mapping
from typing import Any, Protocol

from horizon_app.contracts.events import KnobChanged
from horizon_app.contracts.residency import BlockLayout


class TelemetrySink(Protocol):
    """Takes facts from the training thread; must return at once and never raise."""

    def layout(self, layout: BlockLayout) -> None:
        """The blocks of this run; called once before the first optimizer step."""
        ...

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """The numbers of one optimizer step."""
        ...

    def wants_residency(self) -> bool:
        """Whether a residency frame would be taken now; cheap, asked at every compute step."""
        ...

    def residency(self, frame: bytes) -> None:
        """One binary residency frame; may be dropped."""
        ...

    def note(self, kind: str, message: str, data: Mapping[str, Any]) -> None:
        """A fact with no type of its own."""
        ...

    def knob(self, change: KnobChanged) -> None:
        """What came of a change of a knob."""
        ...

    def log(self, level: str, message: str) -> None:
        """One log line."""
        ...


class NullSink:
    """A sink that keeps nothing."""

    def layout(self, layout: BlockLayout) -> None:
        """Drop it."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Drop it."""

    def wants_residency(self) -> bool:
        """Never."""
        return False

    def residency(self, frame: bytes) -> None:
        """Drop it."""

    def note(self, kind: str, message: str, data: Mapping[str, Any]) -> None:
        """Drop it."""

    def knob(self, change: KnobChanged) -> None:
        """Drop it."""

    def log(self, level: str, message: str) -> None:
        """Drop it."""
