"""The model's stages, entered one after the other: each with the weights of this moment, ready for its products."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from horizon_app.engine.memory.geometry import Parameter, Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import PlaneName
from horizon_app.engine.model.staged import StagedModel
from horizon_app.engine.streaming.access import Workspace
from horizon_app.engine.streaming.schedule import ComputeStep, Schedule, StageOrder
from horizon_app.engine.streaming.streamer import Streamer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageParts:
    """What stages are made of."""

    partition: Partition
    pool: HostPool
    model: StagedModel
    streamer: Streamer
    workspace: Workspace
    orders: tuple[StageOrder, ...]


class Stages:
    """Walks the compute steps of a schedule; shared by all passes, since all see the same weights."""

    def __init__(self, parts: StageParts) -> None:
        self.partition, self.pool, self.model = parts.partition, parts.pool, parts.model
        self.streamer, self.orders, self._workspace = parts.streamer, parts.orders, parts.workspace
        self.head = len(parts.partition.stage_names) - 1
        self.gathered_blocks = [gathered_blocks(parts.partition, group) for group in parts.model.gathered]
        self.resident_of = [
            [p for p in parts.partition.parameters if p.name in parts.model.resident and p.stage == stage]
            for stage in range(self.head + 1)
        ]
        self._looked_up = sorted(
            {0} | {parts.partition.by_name[lookup.parameter].stage for lookup in self.model.lookups}
        )
        self.weights_changed()
        self._next = 0  # compute step of the schedule

    def weights_changed(self) -> None:
        """The small parameters on the device are out of date from now on."""
        self._stale = set(range(self.head + 1))  # stages whose small parameters are of an earlier step

    def begin(self, schedule: Schedule) -> None:
        """Start on a schedule."""
        self._next = 0
        self.streamer.begin_optimizer_step(schedule)

    def enter(self, stage: int) -> None:
        """Wait for the stage's weights of this step, put the small ones on the device, and step on in the schedule."""
        self._bring(stage)
        self.step_on()

    def enter_embedding(self) -> None:
        """The same for whatever the embedding looks up, of which few models stream anything."""
        for stage in self._looked_up:
            self._bring(stage)
        if self.is_next(0):
            self.step_on()

    def is_next(self, stage: int) -> bool:
        """Whether the schedule's next compute step is one of `stage`."""
        steps = self.streamer.schedule.steps
        return self._next < len(steps) and steps[self._next].stage == stage

    def step_on(self) -> None:
        """Begin the next compute step of the schedule."""
        self.streamer.begin_compute_step(self._next)
        if _log.isEnabledFor(logging.DEBUG):
            self._tell(self.streamer.schedule.steps[self._next])
        self._next += 1

    def fill(self, stage: int) -> dict[str, torch.Tensor]:
        """The parameters that the stage uses whole, by name, as leaves that collect gradients."""
        return self._workspace.fill(self.model.gathered[stage], self.model.device)

    def _tell(self, step: ComputeStep) -> None:
        _log.debug(
            "compute step %d: %s of %s, accesses %d to %d of the schedule, window %d", self._next,
            step.direction.name.lower(), self.partition.stage_names[step.stage], step.start, step.end,
            self.streamer.window,
        )  # fmt: skip

    def _bring(self, stage: int) -> None:
        self.streamer.gate.pass_through(stage)
        if stage not in self._stale:
            return
        self._stale.discard(stage)
        plane = PlaneName.MASTER if PlaneName.MASTER in self.pool.planes else PlaneName.WEIGHT
        with torch.no_grad():
            for parameter in self.resident_of[stage]:
                self.model.resident[parameter.name].copy_(self.pool.read(parameter, plane))


def gathered_blocks(partition: Partition, parameters: Sequence[Parameter]) -> tuple[int, ...]:
    """The blocks that hold `parameters`, in order of use."""
    return tuple(segment.block for parameter in parameters for segment in partition.segments_in(parameter))
