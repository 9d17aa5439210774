"""The schedule: which blocks each compute step will ask for, in order, before the step begins.

The order inside a stage is not assumed but recorded: the model's own graph runs once on two tokens without weights, and
the products note which segments they read, forward and backward.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import torch

from horizon_app.contracts.residency import Direction
from horizon_app.contracts.run_spec import ScheduleOrder
from horizon_app.engine.memory.geometry import Partition, Segment
from horizon_app.engine.policy.optimal import optimal_misses
from horizon_app.engine.policy.protocol import NEVER

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class StageOrder:
    """The blocks that one pass through a stage asks for, in order; the same block twice in a row is one access."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]


class OrderRecorder:
    """A `SegmentAccess` without weights: notes the order in which products ask for segments."""

    def __init__(self, partition: Partition, device: torch.device, dtype: torch.dtype) -> None:
        self._partition, self._device, self._dtype = partition, device, dtype
        self._forward: list[list[int]] = [[] for _ in partition.stage_names]
        self._backward: list[list[int]] = [[] for _ in partition.stage_names]
        widest = max((segment.numel for segment in partition.segments), default=0)
        numbers = torch.randn(widest, generator=torch.Generator().manual_seed(0)) * 0.05
        self._weights = numbers.to(device=device, dtype=dtype)  # the same for all segments
        self.touched: set[int] = set()  # parameters that got a gradient
        self.recording_backward = False

    def weight(self, segment: Segment) -> torch.Tensor:
        """Some numbers in the segment's shape; its place in the order matters, and that they are not all alike."""
        log = self._backward if self.recording_backward else self._forward
        log[self._partition.blocks[segment.block].stage].append(segment.block)
        return self._weights[: segment.numel]

    def gradient(self, segment: Segment) -> torch.Tensor:
        """Scratch memory."""
        self.touched.add(segment.parameter)
        return torch.empty(segment.numel, dtype=self._dtype, device=self._device)

    def gradient_done(self, segment: Segment, gradient: torch.Tensor) -> None:
        """Nothing to take away."""

    def orders(self) -> tuple[StageOrder, ...]:
        """What was recorded, one a stage."""
        return tuple(
            StageOrder(forward=without_repeats(f), backward=without_repeats(b))
            for f, b in zip(self._forward, self._backward, strict=True)
        )


def without_repeats(blocks: Sequence[int]) -> tuple[int, ...]:
    """Drop each block that is the same as the one before it: it is still in use, so it is no access of its own."""
    return tuple(b for i, b in enumerate(blocks) if i == 0 or blocks[i - 1] != b)


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeStep:
    """One execution of one stage in one direction, and its accesses: positions [`start`, `end`) of the schedule."""

    stage: int
    direction: Direction
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """All accesses of one optimizer step."""

    steps: tuple[ComputeStep, ...]
    accesses: tuple[int, ...]
    _positions: dict[int, list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        positions: dict[int, list[int]] = {}
        for position, block in enumerate(self.accesses):
            positions.setdefault(block, []).append(position)
        object.__setattr__(self, "_positions", positions)

    def next_use(self, block: int, position: int) -> int:
        """The first position from `position` on at which the block is asked for; `NEVER` where there is none."""
        uses = self._positions.get(block, ())
        i = bisect_left(uses, position)
        return uses[i] if i < len(uses) else NEVER

    @cached_property
    def _misses(self) -> dict[int, int]:
        return {}

    def optimal_hit_rate(self, capacity: int) -> float:
        """Share of the accesses that Belady's MIN would find in an arena of `capacity` slots, without prefetch."""
        if not self.accesses:
            return 1.0
        if capacity not in self._misses:
            self._misses[capacity] = optimal_misses(self.accesses, capacity)
        return 1.0 - self._misses[capacity] / len(self.accesses)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What the schedule of an optimizer step depends on, besides the model."""

    head_chunks: tuple[int, ...]  # chunks of the loss, one number a micro-batch
    kept_layers: int  # the last so many keep what is inside them; the others are run again before their backward
    order: ScheduleOrder = ScheduleOrder.LAYER_MAJOR


def grouped(micro_batches: Sequence[Item], order: ScheduleOrder) -> list[Sequence[Item]]:
    """The micro-batches of an optimizer step by those that pass the model together, up and down."""
    if order is ScheduleOrder.LAYER_MAJOR:
        return [micro_batches]
    return [[one] for one in micro_batches]


def build_schedule(orders: Sequence[StageOrder], gathered: Sequence[tuple[int, ...]], shape: Shape) -> Schedule:
    """All compute steps of an optimizer step: layer-major, where all micro-batches pass a stage while its blocks are
    there, or one micro-batch after the other.

    `gathered` names the blocks that each stage copies to a workspace before its products.
    """
    steps: list[tuple[int, Direction, list[int]]] = []
    for group in grouped(shape.head_chunks, shape.order):
        steps += _up_and_down(orders, gathered, group, kept_layers=shape.kept_layers)
    return _join(steps)


def build_forward_schedule(
    orders: Sequence[StageOrder], gathered: Sequence[tuple[int, ...]], head_chunks: Sequence[int]
) -> Schedule:
    """The compute steps of one pass upwards, without gradients; `head_chunks` as in `Shape`."""
    last = len(orders) - 1
    steps: list[tuple[int, Direction, list[int]]] = []
    for stage, order in enumerate(orders):
        times = sum(head_chunks) if stage == last else len(head_chunks)
        if stage or order.forward:
            steps.append((stage, Direction.FORWARD, [*gathered[stage], *order.forward * times]))
    return _join(steps)


def _up_and_down(
    orders: Sequence[StageOrder], gathered: Sequence[tuple[int, ...]], group: Sequence[int], *, kept_layers: int
) -> list[tuple[int, Direction, list[int]]]:
    last = len(orders) - 1
    steps: list[tuple[int, Direction, list[int]]] = []
    if orders[0].forward:
        steps.append((0, Direction.FORWARD, [*gathered[0], *orders[0].forward * len(group)]))
    for stage in range(1, last):
        once = list(orders[stage].forward)
        steps.append((stage, Direction.FORWARD, [*gathered[stage], *once * len(group)]))
    head: list[int] = list(gathered[last])
    for chunks in group:
        head += [*orders[last].forward, *orders[last].backward] * chunks
    steps.append((last, Direction.BACKWARD, head))
    for stage in range(last - 1, 0, -1):
        order, recompute = orders[stage], stage < last - kept_layers
        once = [*order.forward, *order.backward] if recompute else list(order.backward)
        again = gathered[stage] if recompute else ()
        steps.append((stage, Direction.BACKWARD, [*again, *once * len(group)]))
    if orders[0].backward:
        steps.append((0, Direction.BACKWARD, list(orders[0].backward * len(group))))
    return steps


def _join(steps: Sequence[tuple[int, Direction, list[int]]]) -> Schedule:
    accesses: list[int] = []
    placed: list[ComputeStep] = []
    for stage, direction, blocks in steps:
        start = len(accesses)
        for block in blocks:
            if not accesses or accesses[-1] != block:
                accesses.append(block)
        placed.append(ComputeStep(stage=stage, direction=direction, start=start, end=len(accesses)))
    return Schedule(steps=tuple(placed), accesses=tuple(accesses))
