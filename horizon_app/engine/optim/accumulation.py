"""How many sequences pass at once, and how many times: decided at the borders of optimizer steps."""

import math
from dataclasses import dataclass

from horizon_app.contracts.run_spec import AccumulationPolicy
from horizon_app.engine.errors import OutOfDeviceMemory

SCARCE, PLENTY = 0.20, 0.50
"""Shares of the device's memory that are free: below, it is short; above, there is room."""
GROWTH, SHRINKAGE = 1.5, 1.2
MOST_STEPS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class AccumulationState:
    """All that a checkpoint must keep: another split of a batch sums in another order."""

    micro_batch: int
    sequences: int
    too_large: int  # the smallest micro-batch known to leave too little memory


class Accumulation:
    """Micro-batch and accumulation steps, moved by the free device memory under the adaptive policy.

    Short memory: steps become min(8, steps x 1.5); room: max(1, steps / 1.2); in whole numbers. With
    `keep_global_batch` the micro-batch follows, so that an optimizer step keeps its sequences and its statistics;
    otherwise it is the sequences that change.

    A micro-batch that left too little memory is not tried again. Its share would be as low as before, so the rule would
    walk back and forth between two sizes for ever, and every change costs a new schedule and new sums in another order.
    """

    def __init__(
        self, *, policy: AccumulationPolicy, keep_global_batch: bool, global_batch: int, micro_batch: int, adapts: bool
    ) -> None:
        """`adapts`: the spec leaves the sizes to the engine; otherwise nothing is ever moved."""
        self.sequences = global_batch
        self.micro_batch = min(micro_batch, global_batch)
        self.steps = math.ceil(self.sequences / self.micro_batch)
        self._follows_memory = policy is AccumulationPolicy.ADAPTIVE and adapts
        self._keeps_sequences, self._adapts = keep_global_batch, adapts
        self._too_large = global_batch + 1  # the smallest micro-batch known to leave too little memory

    def after_step(self, free_share: float) -> bool:
        """Whether anything changed. `free_share` is the least share of the device's memory that the step left free."""
        if not self._follows_memory:
            return False
        if free_share < SCARCE:
            return self._take_less()
        return free_share > PLENTY and self._take_more()

    def out_of_memory(self) -> None:
        """Halve the micro-batch and keep the sequences: the same step can be done again with the same numbers.

        Raises OutOfDeviceMemory where the micro-batch can't or may not be smaller.
        """
        if not self._adapts or self.micro_batch == 1:
            raise OutOfDeviceMemory(micro_batch=self.micro_batch, sequences=self.sequences)
        self._too_large = min(self._too_large, self.micro_batch)
        self._split(math.ceil(self.micro_batch / 2))

    def state(self) -> AccumulationState:
        """What `load` takes."""
        return AccumulationState(micro_batch=self.micro_batch, sequences=self.sequences, too_large=self._too_large)

    def load(self, state: AccumulationState) -> None:
        """Go on from there; sizes that the spec fixes stay as it says: it may have changed since."""
        if not self._adapts:
            return
        if not self._keeps_sequences:
            self.sequences = state.sequences
        self._too_large = state.too_large
        self._split(min(state.micro_batch, self.sequences))

    def _take_less(self) -> bool:
        steps = min(MOST_STEPS, math.ceil(self.steps * GROWTH))
        if not self._keeps_sequences:
            return self._repeat(max(self.steps, steps))
        self._too_large = min(self._too_large, self.micro_batch)
        # Few sequences may need more steps than the rule says before the micro-batch gets smaller at all.
        micro = min(math.ceil(self.sequences / steps), self.micro_batch - 1)
        if micro < 1 or math.ceil(self.sequences / micro) > MOST_STEPS:
            return False
        self._split(micro)
        return True

    def _take_more(self) -> bool:
        fewest = max(1, math.floor(self.steps / SHRINKAGE))
        if not self._keeps_sequences:
            return self._repeat(fewest)
        # Even splits only: anything between them has a small rest, and as many steps as the smaller split.
        for steps in range(fewest, self.steps):
            micro = math.ceil(self.sequences / steps)
            if micro < self._too_large:
                self._split(micro)
                return True
        return False

    def _split(self, micro_batch: int) -> None:
        self.micro_batch = micro_batch
        self.steps = math.ceil(self.sequences / micro_batch)

    def _repeat(self, steps: int) -> bool:
        if steps == self.steps:
            return False
        self.steps, self.sequences = steps, self.micro_batch * steps
        return True
