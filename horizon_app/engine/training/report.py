"""What an engine tells of itself: its blocks, its plan, the numbers of each step, and who has which block now."""

import time
from collections.abc import Mapping
from typing import Any

from horizon_app.contracts.residency import (
    BlockFacts,
    BlockLayout,
    Direction,
    FrameHeader,
    MapId,
    StageLayout,
    encode_frame,
)
from horizon_app.engine.memory.block_table import Host
from horizon_app.engine.memory.disk_tier import DiskTier
from horizon_app.engine.memory.geometry import Parameter, Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import DiskState, PlaneName
from horizon_app.engine.training.assemble import Machinery
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.sizes import Sizes
from horizon_app.engine.training.step import StepResult

HOST_MAP = {DiskState.ON_DISK: Host.ABSENT, DiskState.READING: Host.ARRIVING}
"""What the host tier has of weights that are not in RAM; of all others the block table tells."""
DISK_MAP = {DiskState.IN_RAM: 0, DiskState.READING: 1, DiskState.ON_DISK: 2, DiskState.WRITING: 3}


def block_layout(config: EngineConfig, sizes: Sizes, partition: Partition) -> BlockLayout:
    """Every block, in order: what a residency frame's positions mean."""
    names: list[list[str]] = [[] for _ in partition.blocks]
    for segment in partition.segments:
        name = _short_name(partition.parameters[segment.parameter], partition)
        if name not in names[segment.block]:
            names[segment.block].append(name)
    itemsize = config.compute_dtype.itemsize
    first = 0
    laid: list[StageLayout] = []
    for name, blocks in zip(partition.stage_names, partition.stage_blocks, strict=True):
        laid.append(StageLayout(name=name, first_block=first, num_blocks=len(blocks)))
        first += len(blocks)
    return BlockLayout(
        block_bytes=config.block_bytes,
        max_device_blocks=sizes.num_slots + (len(partition.blocks) if sizes.shares_host else 0),
        device=str(config.device), compute_dtype=_dtype_name(config),
        parameters=sum(p.numel for p in partition.parameters), stages=laid,
        blocks=[
            BlockFacts(stage=b.stage, parameters=names[b.index], elements=b.numel, bytes=b.numel * itemsize)
            for b in partition.blocks
        ],
    )  # fmt: skip


def plan_facts(
    config: EngineConfig, sizes: Sizes, partition: Partition, disk: DiskTier, process_bytes: int | None
) -> dict[str, Any]:
    """What was decided, and the bytes per tier. `process_bytes` is of the whole worker's memory, where it is known."""
    return {
        "device": str(config.device),
        "compute_dtype": _dtype_name(config),
        "parameters": sum(p.numel for p in partition.parameters),
        "param_block_size": config.block_bytes,
        "blocks": len(partition.blocks),
        "max_gpu_blocks": sizes.num_slots,
        "shares_host": sizes.shares_host,
        "prefetch_window": config.first_window,
        "prefetch_window_adjusts": config.window is None,
        "policy": config.policy.value,
        "micro_batch_size": sizes.activations.micro_batch,
        "accumulation_steps": -(-config.global_batch // sizes.activations.micro_batch),
        "layers_recomputed": sizes.activations.layers_recomputed,
        "layer_inputs_on_host": sizes.activations.host_inputs,
        "device_bytes": sizes.arena_bytes,
        "host_bytes": sizes.host_bytes,
        "disk_bytes": disk.file_bytes,
        "planes_on_disk": [name.value for name, frames in sizes.placement.frames.items() if frames is not None],
        "disk_direct": disk.is_direct,
        "activation_bytes": sizes.activation_bytes(sizes.activations.micro_batch),
        "process_bytes": process_bytes,
    }


class StepReport:
    """Makes the metrics of each step, and residency frames in between."""

    def __init__(self, pool: HostPool, disk: DiskTier, machinery: Machinery) -> None:
        self._pool, self._disk, self._m = pool, disk, machinery
        self._moved_before = (0, 0)  # bytes read and written when the step before ended
        self.trained_tokens = 0  # since optimizer step 1, whichever process did it
        self.trained_samples = 0  # the same

    def metrics(
        self, result: StepResult, *, learning_rate: float, micro_batch: int, seconds: float
    ) -> dict[str, float]:
        """The numbers of one optimizer step, which took `seconds` with all that led to it."""
        counters, arena, pool = self._m.counters, self._m.arena, self._pool
        self.trained_tokens += result.trained_tokens
        self.trained_samples += result.samples
        accesses = max(1, counters.accesses)
        capacity = arena.num_slots - self._m.gather.num_slots  # none at all where products read from the host
        values = {
            "train/loss": result.loss,
            "train/grad_norm": result.grad_norm,
            "train/learning_rate": learning_rate,
            "train/tokens": float(self.trained_tokens),
            "train/samples": float(self.trained_samples),
            "throughput/tokens_per_second": result.tokens / seconds,
            "time/step": seconds,
            "time/stall": counters.stall_s,
            "prefetch/hit_rate": counters.hits / accesses,
            "prefetch/late_rate": counters.late / accesses,
            "prefetch/miss_rate": counters.misses / accesses,
            "prefetch/optimal_hit_rate": result.schedule.optimal_hit_rate(capacity) if capacity else 1.0,
            "prefetch/window": float(self._m.streamer.window),
            "tier/device_bytes": float(arena.most_used_lately() * arena.slot_bytes),
            "tier/host_bytes": float(pool.num_bytes + self._m.inputs.num_bytes),
            "transfer/host_to_device": counters.bytes_in / seconds,
            "transfer/device_to_host": counters.bytes_out / seconds,
            "accumulation/steps": float(result.micro_batches),
            "accumulation/micro_batch_size": float(micro_batch),
        }
        scale = self._m.loss_scale
        if scale.overflows:
            values |= {"train/loss_scale": result.loss_scale, "train/skipped_steps": float(scale.skipped)}
        return {**values, **self._disk_metrics(seconds)}

    def _disk_metrics(self, seconds: float) -> Mapping[str, float]:
        disk = self._disk
        if not disk.is_used:
            return {}
        read, written = disk.bytes_read - self._moved_before[0], disk.bytes_written - self._moved_before[1]
        self._moved_before = disk.bytes_read, disk.bytes_written
        return {
            "tier/disk_bytes": float(disk.file_bytes),
            "transfer/disk_read": read / seconds,
            "transfer/disk_write": written / seconds,
            "disk/bytes_written": float(disk.bytes_written),
        }

    def frame(self, step: int) -> bytes:
        """A residency frame of this moment in optimizer step `step`."""
        self._m.streamer.poll_arrivals()
        self._m.gather.poll()
        index = self._m.streamer.step_index
        steps = self._m.streamer.schedule.steps
        now = steps[index] if index < len(steps) else None
        header = FrameHeader(
            time_us=time.time_ns() // 1000, step=step, compute_step=index, stage=now.stage if now else 0,
            direction=now.direction if now else Direction.UPDATE, window=min(255, self._m.streamer.window),
            num_blocks=self._m.table.num_blocks, slots_used=self._m.arena.num_used + self._m.table.num_shared,
        )  # fmt: skip
        return encode_frame(header, self._maps())

    def _maps(self) -> dict[MapId, bytes]:
        maps = self._m.table.maps()
        if self._pool.store is None:
            return maps
        blocks = range(self._m.table.num_blocks)
        maps[MapId.DISK] = bytes(DISK_MAP[self._pool.disk_state(block)] for block in blocks)
        weights = self._pool.planes[PlaneName.WEIGHT]
        if weights.is_paged:
            states = zip(maps[MapId.HOST], (weights.on_disk(block) for block in blocks), strict=True)
            maps[MapId.HOST] = bytes(HOST_MAP.get(disk, host) for host, disk in states)
        return maps


def _dtype_name(config: EngineConfig) -> str:
    return str(config.compute_dtype).removeprefix("torch.")


def _short_name(parameter: Parameter, partition: Partition) -> str:
    """A parameter's name inside its stage, without the `.weight` that nearly all share."""
    stage = partition.stage_names[parameter.stage]
    name = parameter.name
    if stage.startswith("L"):
        marker = f".{stage[1:]}."
        name = name[name.index(marker) + len(marker) :]
    return name.removesuffix(".weight")
