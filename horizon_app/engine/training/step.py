"""One optimizer step, layer-major: forward up, loss, backward down, gather, clip, update.

Shape suffixes: S sequences of a micro-batch, T tokens of a sequence, H width.
"""

import math
import time
from dataclasses import dataclass, field

import numpy as np
import torch

from horizon_app.data.batches import IGNORE, Batch
from horizon_app.engine.errors import BadBatch, NonFiniteGradient
from horizon_app.engine.memory.block_table import BlockTable
from horizon_app.engine.memory.geometry import Parameter, Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.model.lookup import RowGradient
from horizon_app.engine.model.staged import LayerCall, StagedModel
from horizon_app.engine.optim.adamw import HostAdamW
from horizon_app.engine.optim.clipping import clip_factor, global_norm
from horizon_app.engine.streaming.access import Workspace
from horizon_app.engine.streaming.gradients import GradientGather
from horizon_app.engine.streaming.schedule import Schedule, Shape, StageOrder, build_schedule
from horizon_app.engine.streaming.streamer import Streamer
from horizon_app.engine.training.loss import SummedCrossEntropy


@dataclass(kw_only=True, slots=True)
class MicroBatch:
    """A micro-batch on its way through the stages."""

    input_ids: torch.Tensor  # [S, T]
    position_ids: torch.Tensor  # [S, T]
    trained: torch.Tensor  # places that predict a trained token, flat over [S, T]
    targets: torch.Tensor  # the tokens they predict
    embedded: torch.Tensor | None = None  # [S, T, H] with the graph back to the embedding rows
    rows: list[RowGradient] = field(default_factory=list[RowGradient])
    calls: list[LayerCall] = field(default_factory=list[LayerCall])
    hidden: torch.Tensor | None = None  # what the next stage gets, without a graph
    gradient: torch.Tensor | None = None  # of the stage's output, on the way down
    inputs: list[torch.Tensor] = field(default_factory=list[torch.Tensor])  # of each layer
    outputs: list[torch.Tensor] = field(default_factory=list[torch.Tensor])  # of each layer, where graphs are kept
    random_states: list[torch.Tensor] = field(default_factory=list[torch.Tensor])


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What one optimizer step tells."""

    loss: float
    grad_norm: float
    trained_tokens: int
    tokens: int
    micro_batches: int
    schedule: Schedule
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepParts:
    """The parts that a step works with."""

    partition: Partition
    pool: HostPool
    table: BlockTable
    model: StagedModel
    streamer: Streamer
    gather: GradientGather
    workspace: Workspace
    optimizer: HostAdamW
    orders: tuple[StageOrder, ...]
    micro_batch: int
    chunk_tokens: int
    recompute: bool
    max_grad_norm: float


class OptimizerStep:
    """Runs optimizer steps, one after the other."""

    def __init__(self, parts: StepParts) -> None:
        self._p = parts
        self._schedules: dict[Shape, Schedule] = {}
        self._gathered_blocks = [self._blocks_of(parameters) for parameters in parts.model.gathered]
        self._kept_leaves: list[dict[str, torch.Tensor]] = [{} for _ in parts.orders]
        self._resident_of = [
            [p for p in parts.partition.parameters if p.name in parts.model.resident and p.stage == stage]
            for stage in range(len(parts.orders))
        ]

    def run(self, batch: Batch, *, step: int, learning_rate: float) -> StepResult:
        """One update of the weights. Raises BadBatch, NonFiniteGradient (nothing is updated then)."""
        begin = time.perf_counter()
        parts = self._p
        micro = self._split(batch)
        total = sum(m.targets.numel() for m in micro)
        if total == 0:
            raise BadBatch(f"optimizer step {step}: none of the batch's {batch.input_ids.size} tokens is trained")
        schedule = self._schedule_for(micro)
        parts.streamer.begin_optimizer_step(schedule)
        parts.gather.begin_optimizer_step()
        self._embed(micro, schedule)
        for stage in range(1, parts.model.num_layers + 1):
            self._forward_layer(stage, micro)
        loss = self._head(micro, total)
        for stage in range(parts.model.num_layers, 0, -1):
            self._backward_layer(stage, micro)
        self._backward_embedding(micro)
        parts.streamer.release_current()
        norm = self._update(step, learning_rate, loss)
        return StepResult(
            loss=loss, grad_norm=norm, trained_tokens=total, tokens=int(batch.input_ids.size),
            micro_batches=len(micro), schedule=schedule, seconds=time.perf_counter() - begin,
        )  # fmt: skip

    # -- the batch

    def _split(self, batch: Batch) -> list[MicroBatch]:
        size, device = self._p.micro_batch, self._p.model.device
        micro: list[MicroBatch] = []
        for start in range(0, batch.input_ids.shape[0], size):
            rows = slice(start, start + size)
            targets = np.full_like(batch.labels[rows], IGNORE)
            targets[:, :-1] = batch.labels[rows, 1:]
            trained = np.flatnonzero(targets != IGNORE)
            micro.append(
                MicroBatch(
                    input_ids=torch.from_numpy(batch.input_ids[rows].copy()).to(device),
                    position_ids=torch.from_numpy(batch.position_ids[rows].copy()).to(device),
                    trained=torch.from_numpy(trained).to(device),
                    targets=torch.from_numpy(targets.reshape(-1)[trained]).to(device),
                )
            )
        return micro

    def _schedule_for(self, micro: list[MicroBatch]) -> Schedule:
        chunks = tuple(math.ceil(m.targets.numel() / self._p.chunk_tokens) for m in micro)
        shape = Shape(micro_batches=len(micro), head_chunks=chunks, recompute=self._p.recompute)
        if shape not in self._schedules:
            self._schedules = {shape: build_schedule(self._p.orders, self._gathered_blocks, shape)}
        return self._schedules[shape]

    # -- forward

    def _embed(self, micro: list[MicroBatch], schedule: Schedule) -> None:
        self._next = 0
        if schedule.steps[0].stage == 0:
            self._begin_step()
        with torch.enable_grad():
            for m in micro:
                prologue = self._p.model.prologue(m.input_ids, m.position_ids)
                m.embedded, m.calls, m.rows = prologue.hidden, prologue.calls, prologue.rows
                m.hidden = prologue.hidden.detach()

    def _forward_layer(self, stage: int, micro: list[MicroBatch]) -> None:
        self._begin_step()
        gathered = self._fill(stage)
        keep = not self._p.recompute
        if keep:
            self._kept_leaves[stage] = gathered
        for m in micro:
            hidden = _there(m.hidden).requires_grad_(keep)
            m.inputs.append(hidden)
            if self._p.recompute and self._p.model.has_dropout:
                m.random_states.append(_random_state(hidden.device))
            with torch.set_grad_enabled(keep):
                output = self._p.model.layer(stage - 1, hidden, m.calls[stage - 1], gathered)
            if keep:
                m.outputs.append(output)
            m.hidden = output.detach()

    def _head(self, micro: list[MicroBatch], total: int) -> float:
        self._begin_step()
        loss = math.fsum(self._head_of(m, 1.0 / total) for m in micro) / total
        # Taken again once a tied embedding has added its rows; now it tells whether the head was finite by itself.
        self._p.gather.norm_when_gathered(len(self._p.orders) - 1)
        return loss

    def _head_of(self, m: MicroBatch, scale: float) -> float:
        """Loss of one micro-batch (a sum), leaving its gradient with respect to the last layer's output."""
        hidden_STH = _there(m.hidden).requires_grad_()
        m.hidden = None
        if m.targets.numel() == 0:
            m.gradient = torch.zeros_like(hidden_STH)
            return 0.0
        with torch.enable_grad():
            final = self._p.model.epilogue(hidden_STH, m.position_ids)
            picked = final.reshape(-1, final.shape[-1]).index_select(0, m.trained)
        gradient = torch.empty_like(picked)
        losses: list[torch.Tensor] = []
        for start in range(0, m.targets.numel(), self._p.chunk_tokens):
            rows = slice(start, start + self._p.chunk_tokens)
            leaf = picked[rows].detach().requires_grad_()
            with torch.enable_grad():
                loss = SummedCrossEntropy.apply(self._p.model.logits(leaf), m.targets[rows], scale)
            loss.backward()
            gradient[rows] = _there(leaf.grad)
            losses.append(loss.detach())
        picked.backward(gradient)
        m.gradient = _there(hidden_STH.grad)
        return math.fsum(float(loss) for loss in losses)

    # -- backward

    def _backward_layer(self, stage: int, micro: list[MicroBatch]) -> None:
        self._begin_step()
        gathered = self._fill(stage) if self._p.recompute else self._kept_leaves[stage]
        for m in micro:
            hidden = m.inputs.pop()
            output = m.outputs.pop() if m.outputs else self._recompute(stage, m, hidden, gathered)
            output.backward(_there(m.gradient))
            m.gradient = _there(hidden.grad)
            self._p.workspace.collect(self._p.model.gathered[stage], gathered)
        self._kept_leaves[stage] = {}
        self._collect_resident(stage)
        self._p.gather.norm_when_gathered(stage)
        self._p.gather.poll()

    def _recompute(
        self, stage: int, m: MicroBatch, hidden: torch.Tensor, gathered: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        hidden.requires_grad_()
        with torch.enable_grad():
            if not m.random_states:
                return self._p.model.layer(stage - 1, hidden, m.calls[stage - 1], gathered)
            now = _random_state(hidden.device)
            _set_random_state(m.random_states.pop(), hidden.device)
            output = self._p.model.layer(stage - 1, hidden, m.calls[stage - 1], gathered)
            _set_random_state(now, hidden.device)
            return output

    def _backward_embedding(self, micro: list[MicroBatch]) -> None:
        if self._next < len(self._p.streamer.schedule.steps):
            self._begin_step()
        by_name = {p.name: p for p in self._p.partition.parameters}
        for m in micro:
            _there(m.embedded).backward(_there(m.gradient))
            for looked_up in m.rows:
                gradient = _there(looked_up.leaf.grad).to("cpu")
                if looked_up.padding_row is not None:
                    gradient[looked_up.rows == looked_up.padding_row] = 0
                self._p.gather.add_rows(by_name[looked_up.parameter].index, looked_up.rows, gradient)
        for stage in (0, len(self._p.orders) - 1):
            self._collect_resident(stage)
            self._p.gather.norm_when_gathered(stage)

    # -- update

    def _update(self, step: int, learning_rate: float, loss: float) -> float:
        parts = self._p
        squares = parts.gather.finish()
        norm = global_norm(squares)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            stage = parts.gather.first_bad_stage
            stage = len(parts.orders) - 1 if stage is None else stage
            raise NonFiniteGradient(step=step, stage=parts.partition.stage_names[stage], loss=loss)
        clip = clip_factor(norm, parts.max_grad_norm)
        parts.streamer.invalidate()
        for stage in range(len(parts.orders)):
            for block in parts.partition.blocks_of_stage(stage):
                parts.optimizer.update(block, step=step, learning_rate=learning_rate, clip=clip)
                parts.table.updated(block.index)
            self.refresh_resident(stage)
        return norm

    def refresh_resident(self, stage: int) -> None:
        """Copy a stage's small parameters from the masters to the device."""
        pool = self._p.pool
        with torch.no_grad():
            for parameter in self._resident_of[stage]:
                self._p.model.resident[parameter.name].copy_(pool.parameter_view(pool.master, parameter))

    # -- inside

    def _begin_step(self) -> None:
        self._p.streamer.begin_compute_step(self._next)
        self._next += 1

    def _fill(self, stage: int) -> dict[str, torch.Tensor]:
        return self._p.workspace.fill(self._p.model.gathered[stage], self._p.model.device)

    def _collect_resident(self, stage: int) -> None:
        for parameter in self._resident_of[stage]:
            leaf = self._p.model.resident[parameter.name]
            if leaf.grad is not None:
                self._p.gather.add_parameter(parameter, leaf.grad)
                leaf.grad = None

    def _blocks_of(self, parameters: list[Parameter]) -> tuple[int, ...]:
        partition = self._p.partition
        return tuple(partition.segments[i].block for p in parameters for i in partition.segments_of[p.index])


def _there(tensor: torch.Tensor | None) -> torch.Tensor:
    if tensor is None:
        raise AssertionError("a stage ran before the one that feeds it")
    return tensor


def _random_state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(state: torch.Tensor, device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
