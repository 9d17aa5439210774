"""Puts an engine's parts together: the model bound to its blocks, the device tier; and what training adds to it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from horizon_app.contracts.run_spec import OptimizerState
from horizon_app.engine.memory.arena import Arena
from horizon_app.engine.memory.block_table import BlockTable
from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.model.staged import StagedModel
from horizon_app.engine.optim.adamw import CHUNK, AdamWConfig, HostAdamW
from horizon_app.engine.optim.loss_scale import LossScale
from horizon_app.engine.optim.moments import FullMoments, PackedMoments
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.streaming.access import DeviceAccess, SegmentDoor, WeightAccess, Workspace
from horizon_app.engine.streaming.gradients import GradientGather
from horizon_app.engine.streaming.schedule import StageOrder
from horizon_app.engine.streaming.streamer import Streamer
from horizon_app.engine.telemetry.counters import Counters
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.forward import ForwardPass
from horizon_app.engine.training.layer_inputs import HeldInputs, HostInputs, LayerInputs
from horizon_app.engine.training.loading import LoadedModel, ModelPlan
from horizon_app.engine.training.rehearsal import learn_order
from horizon_app.engine.training.stages import StageParts, Stages
from horizon_app.engine.training.step import OptimizerStep, StepParts
from horizon_app.engine.training.updates import WeightUpdates

ArenaHook = Callable[[torch.Tensor], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """Calls back at moments that others care about."""

    on_slot_release: ArenaHook | None  # with each freed slot of the arena
    on_access: Callable[[], None]  # at each access to a block


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceTier:
    """The model bound to its blocks, and the arena that they come to. Nothing in it trains."""

    door: SegmentDoor
    model: StagedModel
    orders: tuple[StageOrder, ...]
    trained: frozenset[int]  # parameters that take part in the loss
    table: BlockTable
    arena: Arena
    counters: Counters
    streamer: Streamer

    def stages(self, partition: Partition, pool: HostPool, access: WeightAccess) -> Stages:
        """The stages, with their weights by way of `access`."""
        self.door.target = access
        workspace = Workspace(partition, access, self.model.compute_dtype)
        return Stages(
            StageParts(
                partition=partition, pool=pool, model=self.model, streamer=self.streamer, workspace=workspace,
                orders=self.orders,
            )
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Machinery:
    """All parts of an engine that trains, ready."""

    table: BlockTable
    arena: Arena
    counters: Counters
    streamer: Streamer
    gather: GradientGather
    inputs: LayerInputs
    updates: WeightUpdates
    stages: Stages
    forward: ForwardPass
    loss_scale: LossScale
    step: OptimizerStep
    unused: tuple[str, ...]  # parameters that take no part in the loss


def assemble_device(plan: ModelPlan, loaded: LoadedModel, hooks: Hooks) -> DeviceTier:
    """Bind the model to its blocks, and take the arena. Raises UnsupportedModel."""
    config, sizes, partition = plan.config, plan.sizes, plan.partition
    pool, backend = loaded.pool, loaded.backend
    door = SegmentDoor()
    model = StagedModel(
        plan.found,
        partition,
        door,
        device=config.device,
        compute_dtype=config.compute_dtype,
        keep_fp32=config.keep_fp32,
    )
    orders, trained = learn_order(partition, model, door)
    for lookup in model.lookups:
        parameter = partition.by_name[lookup.parameter]
        lookup.read_rows = lambda rows, parameter=parameter: pool.rows(parameter, rows)
    table, counters = BlockTable(len(partition.blocks)), Counters()
    storage = backend.new_arena(sizes.num_slots, partition.block_numel, config.compute_dtype)
    arena = Arena(storage, hooks.on_slot_release)
    streamer = Streamer(
        partition=partition, pool=pool, arena=arena, table=table, backend=backend,
        policy=make_policy(config.policy, sizes.num_slots), window=config.first_window, counters=counters,
        shares_host=sizes.shares_host, on_access=hooks.on_access,
    )  # fmt: skip
    return DeviceTier(
        door=door, model=model, orders=orders, trained=trained, table=table, arena=arena, counters=counters,
        streamer=streamer,
    )  # fmt: skip


def assemble(plan: ModelPlan, loaded: LoadedModel, hooks: Hooks) -> Machinery:
    """Everything that training needs on top of the device tier. Raises UnsupportedModel."""
    config, sizes, partition = plan.config, plan.sizes, plan.partition
    pool, backend = loaded.pool, loaded.backend
    device = assemble_device(plan, loaded, hooks)
    model, streamer, table, arena = device.model, device.streamer, device.table, device.arena
    gather = GradientGather(
        partition=partition, pool=pool, arena=arena, table=table, backend=backend, streamer=streamer,
        num_slots=sizes.gradient_slots,
        writes_host=sizes.shares_host and config.compute_dtype == torch.float32,
    )  # fmt: skip
    stages = device.stages(partition, pool, DeviceAccess(streamer, gather))
    updates = _updates(config, partition, pool, table, model, device.trained)
    streamer.gate = updates
    inputs = (
        HostInputs(backend, partition.block_numel, sizes.inputs, loaded.host.new_input_plane)
        if sizes.activations.host_inputs
        else HeldInputs()
    )
    loss_scale = _loss_scale(config)
    step = OptimizerStep(
        StepParts(
            partition=partition, pool=pool, model=model, streamer=streamer, gather=gather, stages=stages,
            inputs=inputs, updates=updates, loss_scale=loss_scale, kept_layers=sizes.activations.kept_layers,
            chunk_tokens=sizes.chunk_tokens, order=config.order, max_grad_norm=config.max_grad_norm,
        )
    )  # fmt: skip
    return Machinery(
        table=table, arena=arena, counters=device.counters, streamer=streamer, gather=gather, inputs=inputs,
        updates=updates, stages=stages, forward=ForwardPass(stages, step.order_lost), loss_scale=loss_scale, step=step,
        unused=tuple(p.name for p in partition.parameters if p.index not in device.trained),
    )  # fmt: skip


def _updates(
    config: EngineConfig, partition: Partition, pool: HostPool, table: BlockTable, model: StagedModel,
    trained: frozenset[int],
) -> WeightUpdates:  # fmt: skip
    adamw = AdamWConfig(
        betas=config.betas, eps=config.eps, weight_decay=config.weight_decay, gradient_ema=config.gradient_ema
    )
    packed = config.optimizer_state is OptimizerState.INT8
    optimizer = HostAdamW(partition, pool, adamw, PackedMoments(CHUNK) if packed else FullMoments(), trained)
    looked_up = [partition.by_name[lookup.parameter].stage for lookup in model.lookups]
    stages = dict.fromkeys([*looked_up, *range(len(partition.stage_names))])  # as the next forward needs them
    return WeightUpdates(partition, optimizer, table, list(stages), threads=config.update_threads)


def _loss_scale(config: EngineConfig) -> LossScale:
    if config.compute_dtype != torch.float16:
        return LossScale.off()
    return LossScale.dynamic() if config.loss_scale is None else LossScale.fixed(config.loss_scale)
