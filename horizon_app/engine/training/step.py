"""One optimizer step: micro-batches up, through the loss, and down; the norm; the decision whether to update."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from horizon_app.contracts.run_spec import ScheduleOrder
from horizon_app.data.batches import Batch
from horizon_app.engine.errors import BadBatch
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.optim.adamw import Update
from horizon_app.engine.optim.clipping import clip_factor, global_norm
from horizon_app.engine.optim.loss_scale import LossScale, Overflow
from horizon_app.engine.streaming.host_order import expect_schedule
from horizon_app.engine.streaming.schedule import Schedule, Shape, build_schedule, grouped
from horizon_app.engine.streaming.streamer import Streamer
from horizon_app.engine.training.micro_batch import MicroBatch, packs_samples, split
from horizon_app.engine.training.passes import PassParts, StagePasses, total_loss
from horizon_app.engine.training.random_state import random_state, set_random_state
from horizon_app.engine.training.updates import WeightUpdates


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What one attempt at an optimizer step tells."""

    loss: float
    grad_norm: float
    trained_tokens: int
    samples: int
    tokens: int
    micro_batches: int
    loss_scale: float
    schedule: Schedule
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepParts(PassParts):
    """The parts that a step works with: those of its passes, and what it does around them."""

    pool: HostPool
    streamer: Streamer
    updates: WeightUpdates
    loss_scale: LossScale
    order: ScheduleOrder
    max_grad_norm: float


class OptimizerStep:
    """Runs optimizer steps, one after the other."""

    def __init__(self, parts: StepParts) -> None:
        self._p = parts
        self._passes = StagePasses(parts)
        self._schedule: tuple[Shape, Schedule] | None = None
        self._dice: torch.Tensor | None = None  # the random state that the step began with, where dropout draws

    def run(self, batch: Batch, *, step: int, learning_rate: float, micro_batch: int) -> StepResult | None:
        """One update of the weights; None where an overflow made the attempt void, and the scale is smaller now.

        Raises BadBatch, NonFiniteGradient (nothing is updated then), LossScaleExhausted.
        """
        begin = time.perf_counter()
        parts = self._p
        if parts.model.recurrent and packs_samples(batch):
            raise BadBatch(
                f"the data is packed, but {parts.model.recurrent}, so that one sample would leak into the next; set "
                "data.packing to false"
            )
        micro = split(batch, micro_batch, parts.model.device)
        total = sum(m.targets.numel() for m in micro)
        if total == 0:
            raise BadBatch(f"optimizer step {step}: none of the batch's {batch.input_ids.size} tokens is trained")
        scale = parts.loss_scale.scale
        groups = grouped(micro, parts.order)
        schedule = self._begin(groups, scale, total)
        self._dice = random_state(parts.model.device) if parts.model.has_dropout else None
        losses: list[float] = []
        for number, group in enumerate(groups):
            losses.append(self._up_and_down(group, last=number == len(groups) - 1))
        parts.streamer.release_current()
        loss = math.fsum(losses) / total
        norm = global_norm(parts.gather.finish()) / scale
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._not_finite(step, loss, batch, micro)
            return None
        parts.loss_scale.succeeded()
        factor = clip_factor(norm, parts.max_grad_norm) / scale
        self._update(Update(step=step, learning_rate=learning_rate, factor=factor))
        return StepResult(
            loss=loss, grad_norm=norm, trained_tokens=total, samples=batch.num_samples,
            tokens=int(batch.input_ids.size), micro_batches=len(micro), loss_scale=scale, schedule=schedule,
            seconds=time.perf_counter() - begin,
        )  # fmt: skip

    def keep_nothing(self) -> bool:
        """Run every layer again before its backward from now on; whether any had kept what is inside it."""
        kept, self._passes.kept_layers = self._passes.kept_layers, 0
        return kept > 0

    def order_lost(self) -> None:
        """Something else announced the order of its accesses: the next step announces its own again."""
        self._schedule = None

    def abandon(self) -> None:
        """Leave nothing behind of a step that did not come to its end, not even what it drew; copies are waited for."""
        parts = self._p
        if self._dice is not None:
            set_random_state(self._dice, parts.model.device)
        parts.streamer.release_current()
        parts.updates.flush()  # what waits there are good gradients, of the step before
        parts.gather.drop()
        self._passes.abandon()
        parts.streamer.invalidate()

    def _begin(self, groups: Sequence[Sequence[MicroBatch]], scale: float, tokens: int) -> Schedule:
        parts = self._p
        chunks = tuple(self._passes.head_chunks(m) for group in groups for m in group)
        shape = Shape(head_chunks=chunks, kept_layers=self._passes.kept_layers, order=parts.order)
        if self._schedule is None or self._schedule[0] != shape:
            parts.updates.flush()  # it follows the order that was expected before
            self._schedule = shape, build_schedule(parts.stages.orders, parts.stages.gathered_blocks, shape)
            expect_schedule(parts.pool, parts.partition, self._schedule[1], parts.updates.order)
        again = [stage for stage in range(1, parts.model.num_layers + 1) if not self._passes.keeps(stage)]
        parts.inputs.begin([{(stage, m.index): m.num_sequences for stage in again for m in group} for group in groups])
        sequences = sum(m.num_sequences for group in groups for m in group)
        self._passes.begin(scale, tokens=tokens, sequences=sequences)
        parts.stages.begin(self._schedule[1])
        parts.gather.begin_optimizer_step()
        return self._schedule[1]

    def _up_and_down(self, group: Sequence[MicroBatch], *, last: bool) -> float:
        passes, layers = self._passes, self._p.model.num_layers
        passes.embed(group)
        for stage in range(1, layers + 1):
            passes.forward_layer(stage, group)
        losses = passes.head(group, last=last)
        for stage in range(layers, 0, -1):
            passes.backward_layer(stage, group, last=last)
        passes.backward_embedding(group, last=last)
        return total_loss(losses)

    def _update(self, update: Update) -> None:
        parts = self._p
        parts.streamer.invalidate()
        parts.stages.weights_changed()
        parts.updates.begin(update)

    def _not_finite(self, step: int, loss: float, batch: Batch, micro: Sequence[MicroBatch]) -> None:
        """Give the attempt up, with a smaller loss scale where that may help. Raises where it can't."""
        parts = self._p
        number = parts.gather.first_bad_stage
        stage = parts.partition.stage_names[parts.stages.head if number is None else number]
        sequences = tuple(_name_of(batch, sequence) for sequence in _bad_sequences(micro))
        self.abandon()
        parts.loss_scale.overflowed(Overflow(step=step, stage=stage, loss=loss, sequences=sequences))


def _bad_sequences(micro: Sequence[MicroBatch]) -> list[int]:
    """Sequences of the global batch, from 0, whose hidden states were not finite when they reached the head."""
    bad: list[int] = []
    for m in micro:
        if m.finite_S is not None:
            bad += [m.first_sequence + i for i, finite in enumerate(m.finite_S.tolist()) if not finite]
    return bad


def _name_of(batch: Batch, sequence: int) -> str:
    origin = batch.origins[sequence] if sequence < len(batch.origins) else ""
    return f"sequence {sequence + 1} of the batch ({origin})" if origin else f"sequence {sequence + 1} of the batch"
