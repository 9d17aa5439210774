"""What a diagnosis is made from: a run's order, where it stands, its curves, its knobs, the machine's memory."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, cast

from horizon_app.contracts.knobs import Knob, KnobRange
from horizon_app.contracts.run_state import TAKES_KNOBS, Cause, RunState

RECENT_STEPS = 200
"""Newest optimizer steps of which every point is looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Values of one metric at rising steps; None where not finite."""

    steps: Sequence[int] = ()
    values: Sequence[float | None] = ()

    @property
    def finite(self) -> list[float]:
        """The finite values, in order."""
        return [value for value in self.values if _is_finite(value)]

    @property
    def last(self) -> float | None:
        """The newest finite value."""
        return next((value for value in reversed(self.values) if _is_finite(value)), None)

    @property
    def ends_broken(self) -> bool:
        """Whether the newest value is not finite."""
        return bool(self.values) and not _is_finite(self.values[-1])

    @property
    def num_broken(self) -> int:
        """How many values are not finite."""
        return sum(not _is_finite(value) for value in self.values)

    def since(self, step: int) -> dict[int, float]:
        """The finite values from a step on, by step."""
        pairs = zip(self.steps, self.values, strict=True)
        return {at: value for at, value in pairs if at >= step and _is_finite(value)}


_NOTHING = Curve()


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortage:
    """Memory ran out in a step, and micro-batches were made smaller."""

    step: int
    old: int
    new: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFacts:
    """RAM of the machine, or of the control group that bounds it."""

    total_bytes: int
    available_bytes: int | None = None
    """Now; None where the run has ended, so that it says nothing of the run."""
    peak_bytes: int | None = None
    """The most that the worker ever held, where it is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """One run."""

    state: RunState
    step: int
    reason: str = ""
    cause: Cause | None = None
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """With every default filled in."""
    asked: Any = None
    """The spec that a clone starts from; None: `spec`."""
    plan: Mapping[str, Any] = field(default_factory=dict[str, Any])
    knobs: Mapping[Knob, KnobRange] = field(default_factory=dict[Knob, KnobRange])
    judged_from: int = 0
    """First step in which blocks travelled by the knobs that are in force; behind `step` where one is on its way."""
    recent: Mapping[str, Curve] = field(default_factory=dict[str, Curve])
    """Every point of the newest steps."""
    history: Mapping[str, Curve] = field(default_factory=dict[str, Curve])
    """Finite points of the whole run: all, or the extremes and the last of each stretch."""
    shortages: Sequence[Shortage] = ()
    memory: MemoryFacts | None = None

    @property
    def takes_knobs(self) -> bool:
        """Whether a worker is there that takes changes up."""
        return self.state in TAKES_KNOBS

    def setting(self, key: str) -> Any:
        """The value of a dotted key of the spec; None where there is none."""
        value: Any = self.spec
        for part in key.split("."):
            value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
        return value

    def number(self, key: str) -> float | None:
        """The same where it is a number."""
        value = self.setting(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def planned(self, key: str) -> int | None:
        """A whole number of the plan."""
        value = self.plan.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def in_force(self, knob: Knob) -> int | str | None:
        """The value of a knob now."""
        known = self.knobs.get(knob)
        return None if known is None else known.value

    def lately(self, key: str) -> Curve:
        """A metric in the newest steps."""
        return self.recent.get(key, _NOTHING)

    def ever(self, key: str) -> Curve:
        """A metric over the whole run."""
        return self.history.get(key, _NOTHING)


def _is_finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
