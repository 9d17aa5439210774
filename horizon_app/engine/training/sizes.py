"""The sizes that depend on model and machine: tiers, arena, activations."""

from dataclasses import dataclass, replace
from typing import Any

import psutil

from horizon_app.contracts.run_spec import Disk
from horizon_app.engine.errors import ArenaTooSmall, TierExhausted
from horizon_app.engine.hardware.probe import device_memory, free_device_memory
from horizon_app.engine.memory.disk_tier import check_disk_limit
from horizon_app.engine.memory.geometry import Partition, Use
from horizon_app.engine.memory.placement import Placement, place_planes
from horizon_app.engine.optim.accumulation import SCARCE
from horizon_app.engine.training.activations import Activations, plan_activations
from horizon_app.engine.training.config import ACTIVATION_SHARE, EngineConfig
from horizon_app.engine.training.host_tier import HostLayout, InputRoom
from horizon_app.engine.training.loss import chunk_tokens
from horizon_app.planning.arena import GRADIENT_SLOTS, SMALLEST_ARENA, most_slots

WIDEST_GRADIENT_SHARE = 4
"""Gradients get a second slot from arenas of this many times two slots on."""
HOST_SHARE = 0.8
"""Share of the free RAM that the host tier takes by itself, or less where the process needs more than the rest."""
PROCESS_SHARE = 0.95
"""Share of the free memory that the process may take in all, where no limit is set; the rest is for others."""
SPARE_SHARE = SCARCE + 0.05
"""Share of the device's memory that activations leave: adaptive accumulation takes less at a time where it is scarce,
and what is kept to save time must not be why. The rest is what their estimate may miss."""
_MOST_TRIES = 8
"""Times that the host tier shrinks: where it does, activations may get room that they then take."""
RUNTIME_BYTES = 224 << 20
"""Stacks of threads and scratch of the math libraries, which appear with the first step (60 to 90 MiB were seen), and
holes in the heap, which a worker keeps for its next step (100 to 250 MiB)."""
PRODUCT_BYTES = 10 << 20
"""What oneDNN keeps of each shape of product in 16 bits on a CPU (its compiled kernels, three products a shape)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Numbers decided once, before memory is taken."""

    num_slots: int
    gradient_slots: int
    shares_host: bool  # products read weights from the host tier: no arena for weights
    activations: Activations
    chunk_tokens: int  # tokens whose logits exist at once
    logits_bytes: int
    placement: Placement
    arena_bytes: int
    inputs: InputRoom  # of layer inputs, where they wait on the host
    library_bytes: int  # that threads and the math libraries take in the process
    device_bytes: int  # that arena and activations may take

    @property
    def host_bytes(self) -> int:
        """Bytes of the host tier in RAM."""
        return self.placement.host_bytes + self.inputs.host_bytes

    def activation_bytes(self, micro_batch: int) -> int:
        """Bytes of activations on the device with this micro-batch: an estimate."""
        return self.activations.num_bytes(micro_batch) + self.logits_bytes

    def recomputing_all(self) -> "Sizes":
        """The same where every layer runs again before its backward."""
        return replace(self, activations=self.activations.recomputing_all())

    def process_bytes(self, *, on_cpu: bool) -> int:
        """Anonymous memory that the engine adds to its process, where the device is the CPU with its activations."""
        device = self.arena_bytes + self.activation_bytes(self.activations.micro_batch) if on_cpu else 0
        return self.host_bytes + device + self.library_bytes

    def free_share(self, micro_batch: int) -> float:
        """Share of the device's memory that stays free: of what it is planned to take, so the same in every run."""
        return 1.0 - (self.arena_bytes + self.activation_bytes(micro_batch)) / max(1, self.device_bytes)


def decide_sizes(config: EngineConfig, partition: Partition, layout: HostLayout, model_config: Any) -> Sizes:
    """Decide what the spec leaves to us. Raises ArenaTooSmall or TierExhausted, with the numbers."""
    if config.host_limit_bytes is not None:
        return _with_host_limit(config, partition, layout, model_config, config.host_limit_bytes)
    return _share_of_free(config, partition, layout, model_config, int(psutil.virtual_memory().available))


def _share_of_free(
    config: EngineConfig, partition: Partition, layout: HostLayout, model_config: Any, free: int
) -> Sizes:
    """A host tier that leaves the process room for what it takes besides: activations, the arena, libraries."""
    sizes = _with_host_limit(config, partition, layout, model_config, int(free * HOST_SHARE))
    for _ in range(_MOST_TRIES):
        too_much = sizes.process_bytes(on_cpu=config.device.type == "cpu") - int(free * PROCESS_SHARE)
        if too_much <= 0:
            break
        try:
            sizes = _with_host_limit(config, partition, layout, model_config, sizes.host_bytes - too_much)
        except TierExhausted as refusal:  # less than the least; what is planned is an upper estimate, so it may do
            if refusal.tier != "host":
                return sizes
            return _with_host_limit(config, partition, layout, model_config, refusal.needed_bytes)
    return sizes


def _with_host_limit(
    config: EngineConfig, partition: Partition, layout: HostLayout, model_config: Any, host_limit: int
) -> Sizes:
    def sizes_with(limit: int, reserved: int = 0) -> Sizes:
        placement = _place(config, layout, limit, reserved=reserved)
        return _decide(config, partition, layout, model_config, placement, limit)

    try:
        sizes = sizes_with(host_limit)
    except TierExhausted as refusal:
        if refusal.tier != "host":
            raise
        least = sizes_with(refusal.needed_bytes).inputs.least_bytes
        sizes = sizes_with(host_limit, least)  # refused again, with what works for the inputs of layers too
    if sizes.host_bytes > host_limit:  # the planes have left too little for them
        sizes = sizes_with(host_limit, sizes.inputs.least_bytes)
    check_disk_limit(layout.disk_bytes(sizes.placement) + sizes.inputs.disk_bytes, config.disk_limit_bytes)
    return sizes


def _decide(
    config: EngineConfig, partition: Partition, layout: HostLayout, model_config: Any, placement: Placement,
    host_limit: int,
) -> Sizes:  # fmt: skip
    on_cpu = config.device.type == "cpu"
    free = free_device_memory(config.device)
    left = free - (placement.host_bytes if on_cpu else 0)
    shares_host = on_cpu and config.max_blocks is None and placement.frames[layout.weight_plane] is None
    # What the host tier gives up for the process's other needs is not for an arena on the same RAM to take.
    room_for_arena = min(left, int(free * (1 - HOST_SHARE))) if on_cpu and config.host_limit_bytes is None else left
    slots = GRADIENT_SLOTS if shares_host else _num_slots(config, partition, room_for_arena)
    arena = slots * config.block_bytes
    if arena > max(left, 0):
        fix = "lower offload.max_gpu_blocks"
        raise TierExhausted(tier="device", needed_bytes=arena, free_bytes=max(left, 0), fix=fix)
    tokens = config.global_batch * config.sequence_length
    logits, libraries = _logits_bytes(config, model_config, tokens), _library_bytes(config, partition)
    device = device_memory(config.device) - (placement.host_bytes if on_cpu else 0)
    rest = left - arena - logits - (libraries if on_cpu else 0)
    unspent = rest - free * (1 - PROCESS_SHARE)
    budget = max(0.0, min(rest * ACTIVATION_SHARE, unspent, device * (1 - SPARE_SHARE) - arena - logits))
    ram_is_short = on_cpu and placement.uses_disk
    activations = plan_activations(config, model_config, budget, ram_is_short=ram_is_short)
    room = max(0, host_limit - placement.host_bytes)
    if config.input_limit_bytes is not None and config.disk is not Disk.OFF:
        room = min(room, config.input_limit_bytes)
    inputs = InputRoom(
        num_pages=activations.waiting_inputs, page_numel=model_config.hidden_size * config.sequence_length,
        dtype=config.compute_dtype, limit=room, may_page=config.disk is not Disk.OFF,
    )  # fmt: skip
    return Sizes(
        num_slots=slots, gradient_slots=gradient_slots(slots), shares_host=shares_host, activations=activations,
        chunk_tokens=chunk_tokens(model_config.vocab_size, config.compute_dtype.itemsize, config.logits_budget_bytes),
        logits_bytes=logits, placement=placement, arena_bytes=arena, inputs=inputs, library_bytes=libraries,
        device_bytes=device,
    )  # fmt: skip


def _library_bytes(config: EngineConfig, partition: Partition) -> int:
    halves_on_cpu = config.device.type == "cpu" and config.compute_dtype.itemsize < 4
    return RUNTIME_BYTES + (_num_products(partition) * PRODUCT_BYTES if halves_on_cpu else 0)


def _place(config: EngineConfig, layout: HostLayout, host_limit: int, *, reserved: int = 0) -> Placement:
    can_page = config.disk is not Disk.OFF
    fix = "raise offload.host_memory or take a smaller model" + ("" if can_page else ", or set offload.disk to auto")
    if reserved:
        fix += ", or lower training.global_batch_size or data.sequence_length, whose layer inputs wait there"
    return place_planes(
        layout.page_bytes(), host_limit, may_page=can_page, page_moments=config.disk is Disk.ON, reserved=reserved,
        fix=fix,
    )  # fmt: skip


def _logits_bytes(config: EngineConfig, model_config: Any, tokens: int) -> int:
    """The logits of a chunk of tokens, and their gradient."""
    return 2 * min(config.logits_budget_bytes, tokens * model_config.vocab_size * config.compute_dtype.itemsize)


def _num_products(partition: Partition) -> int:
    """Shapes of products that differ."""
    streamed = (Use.LINEAR, Use.CONV1D)
    owners = [(segment, partition.parameters[segment.parameter]) for segment in partition.segments]
    return len({(s.row_end - s.row_start, p.shape, p.use) for s, p in owners if p.use in streamed})


def _num_slots(config: EngineConfig, partition: Partition, left: int) -> int:
    if config.max_blocks is None:
        # Half of what is free, up to the whole model: activations and logits need the other half.
        everything = most_slots(len(partition.blocks))
        return max(SMALLEST_ARENA, min(everything, max(0, left) // 2 // config.block_bytes))
    return cap_slots(config.max_blocks, partition)


def cap_slots(wanted: int, partition: Partition) -> int:
    """The slots that an arena of `wanted` gets: never more than there is use for. Raises ArenaTooSmall."""
    slots = min(wanted, most_slots(len(partition.blocks)))
    if slots < SMALLEST_ARENA:
        raise ArenaTooSmall(slots=slots, needed=SMALLEST_ARENA)
    return slots


def gradient_slots(slots: int) -> int:
    """How many slots of an arena gradients may take at once."""
    return GRADIENT_SLOTS if slots >= GRADIENT_SLOTS * WIDEST_GRADIENT_SHARE else 1
