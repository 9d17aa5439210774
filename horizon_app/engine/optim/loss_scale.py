"""The factor on the loss that keeps float16 gradients inside of what float16 can hold."""

import math
from dataclasses import dataclass

from horizon_app.engine.errors import LossScaleExhausted, NonFiniteGradient

FIRST_SCALE = 2.0**16
SMALLEST_SCALE = 1.0
LARGEST_SCALE = 2.0**24
GROWTH_INTERVAL = 2000
"""Clean optimizer steps after which the scale doubles."""
MOST_SKIPS = 20
"""Overflows in a row after which the run ends."""
_ADVICE = "Set precision.compute to bf16 or fp32"


@dataclass(frozen=True, kw_only=True, slots=True)
class LossScaleState:
    """All that a checkpoint must keep."""

    scale: float
    clean_steps: int  # since the scale last changed
    skipped_in_a_row: int
    skipped: int
    probes: int
    settled: bool  # whether an optimizer step has succeeded yet


@dataclass(frozen=True, kw_only=True, slots=True)
class Overflow:
    """Where an attempt at an optimizer step went wrong."""

    step: int
    stage: str  # whose gradient was not finite first
    loss: float  # unscaled
    sequences: tuple[str, ...] = ()  # that were not finite when they reached the loss


class LossScale:
    """The scale of the next attempt, moved by how the attempts end.

    The caller multiplies the loss by `scale`, takes it out of the gradients, and tells how the attempt ended. After an
    overflow nothing may be updated, and the same optimizer step is tried again with the same batch: neither the step
    nor the learning rate's schedule moves. Formats that don't need a scale use `off()`, so that nobody asks which
    format it is.
    """

    def __init__(self, scale: float, *, moves: bool, overflows: bool) -> None:
        """`moves`: overflows and clean steps change the scale. `overflows`: the format is float16."""
        self.scale = scale
        self.skipped = 0
        self.probes = 0
        self.overflows = overflows  # whether the format is float16
        self._moves = moves
        self._clean_steps = 0
        self._skipped_in_a_row = 0
        self._settled = False

    @classmethod
    def dynamic(cls) -> "LossScale":
        """float16 with a scale that finds its place."""
        return cls(FIRST_SCALE, moves=True, overflows=True)

    @classmethod
    def fixed(cls, scale: float) -> "LossScale":
        """float16 with the scale that the spec names; an overflow ends the run."""
        return cls(scale, moves=False, overflows=True)

    @classmethod
    def off(cls) -> "LossScale":
        """fp32 and bf16: exactly 1, and whatever is not finite ends the run."""
        return cls(1.0, moves=False, overflows=False)

    def succeeded(self) -> None:
        """All gradients of an optimizer step were finite."""
        self._settled = True
        self._skipped_in_a_row = 0
        self._clean_steps += 1
        if self._moves and self._clean_steps >= GROWTH_INTERVAL:
            self.scale = min(LARGEST_SCALE, self.scale * 2.0)
            self._clean_steps = 0

    def overflowed(self, overflow: Overflow) -> None:
        """A gradient or the loss was not finite: lower the scale for the next attempt, or say why there is none.

        Raises NonFiniteGradient where the format is not to blame, LossScaleExhausted where no scale is left to try.
        """
        if not self.overflows:
            raise NonFiniteGradient(
                step=overflow.step, stage=overflow.stage, loss=overflow.loss, sequences=overflow.sequences
            )
        if not math.isfinite(overflow.loss):
            # The scale acts on the way back only: the next attempt would compute the very same loss.
            where = f" (first in {', '.join(overflow.sequences[:4])})" if overflow.sequences else ""
            raise self._exhausted(overflow, f"the loss itself is not finite{where}, which no scale changes", _ADVICE)
        if not self._moves:
            fix = f"Set precision.loss_scale to dynamic or a smaller number, or {_ADVICE[0].lower()}{_ADVICE[1:]}"
            raise self._exhausted(overflow, "the spec fixes this scale", fix)
        if self.scale <= SMALLEST_SCALE:
            raise self._exhausted(overflow, f"{SMALLEST_SCALE:g} is the smallest scale", _ADVICE)
        if self._skipped_in_a_row + 1 >= MOST_SKIPS:
            raise self._exhausted(overflow, f"it did {MOST_SKIPS} times in a row, at ever smaller scales", _ADVICE)
        self._lower()

    def state(self) -> LossScaleState:
        """What `load` takes."""
        return LossScaleState(
            scale=self.scale, clean_steps=self._clean_steps, skipped_in_a_row=self._skipped_in_a_row,
            skipped=self.skipped, probes=self.probes, settled=self._settled,
        )  # fmt: skip

    def load(self, state: LossScaleState) -> None:
        """Go on from there. A scale that does not move keeps its value: the spec may have changed since."""
        self.skipped, self.probes = state.skipped, state.probes
        if self._moves:
            self.scale = state.scale
            self._clean_steps, self._skipped_in_a_row = state.clean_steps, state.skipped_in_a_row
            self._settled = state.settled

    def _lower(self) -> None:
        self._clean_steps = 0
        if self._settled:
            self.skipped += 1
            self._skipped_in_a_row += 1
            self.scale = max(SMALLEST_SCALE, self.scale / 2.0)
        else:
            # Until a step has succeeded the scale is only a guess, and each attempt costs a whole step: larger strides.
            self.probes += 1
            self.scale = max(SMALLEST_SCALE, self.scale / 4.0)

    def _exhausted(self, overflow: Overflow, why: str, fix: str) -> LossScaleExhausted:
        return LossScaleExhausted(
            step=overflow.step, stage=overflow.stage, scale=self.scale, loss=overflow.loss, why=why, fix=fix
        )
