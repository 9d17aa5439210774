"""The learning rate of each optimizer step: linear warm-up, then constant, linear or cosine."""

import math
from dataclasses import dataclass

from horizon_app.contracts.run_spec import LrSchedule

ROUNDING = 1e-9
"""0.07 of 100 steps are 7, although 0.07 * 100 is a little more in binary."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningRate:
    """Counted in optimizer steps, never in micro-batches."""

    peak: float
    schedule: LrSchedule
    warmup: float  # steps, or a fraction of all steps below 1
    total_steps: int

    @property
    def warmup_steps(self) -> int:
        """Steps of the warm-up."""
        return int(self.warmup) if self.warmup >= 1 else math.ceil(self.warmup * self.total_steps - ROUNDING)

    def at(self, step: int) -> float:
        """The rate of optimizer step `step`, counted from 1: `peak` is reached at the last step of the warm-up."""
        warmup = self.warmup_steps
        if step <= warmup:
            return self.peak * step / warmup
        progress = (step - 1 - warmup) / max(1, self.total_steps - warmup)
        match self.schedule:
            case LrSchedule.CONSTANT:
                return self.peak
            case LrSchedule.LINEAR:
                return self.peak * max(0.0, 1.0 - progress)
            case LrSchedule.COSINE:
                return self.peak * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
