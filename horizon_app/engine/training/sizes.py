"""The sizes that depend on model and machine: arena, micro-batch, whether activations are kept."""

import math
from dataclasses import dataclass
from typing import Any

import torch

from horizon_app.contracts.run_spec import Recompute
from horizon_app.engine.errors import ArenaTooSmall, TierExhausted
from horizon_app.engine.hardware.probe import free_device_memory
from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.training.config import ACTIVATION_SHARE, MICRO_BATCH_TOKENS, EngineConfig

SMALLEST_ARENA = 2
GRADIENT_SLOTS = 2
WIDEST_GRADIENT_SHARE = 4
"""Gradients get a second slot from arenas of this many times two slots on: one can leave while the other fills."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Numbers decided once, before memory is taken."""

    num_slots: int
    gradient_slots: int
    micro_batch: int
    recompute: bool
    host_bytes: int
    arena_bytes: int
    activation_bytes: int


def host_plane_bytes(partition: Partition, compute_dtype: torch.dtype) -> int:
    """Bytes of the host tier's planes: master, two moments, gradient; and weights where the dtype is not fp32."""
    return partition.numel * (16 if compute_dtype == torch.float32 else 16 + compute_dtype.itemsize)


def decide_sizes(config: EngineConfig, partition: Partition, model_config: Any) -> Sizes:
    """Decide what the spec leaves to us. Raises ArenaTooSmall or TierExhausted, with the numbers."""
    itemsize = config.compute_dtype.itemsize
    host = host_plane_bytes(partition, config.compute_dtype)
    free = free_device_memory(config.device)
    limit = config.host_limit_bytes if config.host_limit_bytes is not None else _free_host()
    if host > limit:
        raise TierExhausted(
            tier="host", needed_bytes=host, free_bytes=limit,
            fix="raise offload.host_memory or take a smaller model (the disk tier is not available yet)",
        )  # fmt: skip
    left = free - (host if config.device.type == "cpu" else 0)
    slots = _num_slots(config, partition, left)
    arena = slots * config.block_bytes
    if arena > max(left, 0):
        raise TierExhausted(
            tier="device", needed_bytes=arena, free_bytes=max(left, 0), fix="lower offload.max_gpu_blocks",
        )  # fmt: skip
    budget = max(0.0, (left - arena) * ACTIVATION_SHARE)
    per_token = _kept_bytes_per_token(model_config, itemsize)
    tokens = config.global_batch * config.sequence_length
    recompute = config.recompute is Recompute.ALWAYS or (
        config.recompute is Recompute.AUTO and per_token * tokens > budget
    )
    layers = model_config.num_hidden_layers
    per_call = per_token / layers if recompute else per_token
    micro = min(config.micro_batch or _micro_batch(config, per_call, budget), config.global_batch)
    kept = per_token / layers * micro * config.sequence_length if recompute else per_token * tokens
    return Sizes(
        num_slots=slots, gradient_slots=GRADIENT_SLOTS if slots >= GRADIENT_SLOTS * WIDEST_GRADIENT_SHARE else 1,
        micro_batch=micro, recompute=recompute, host_bytes=host, arena_bytes=arena,
        activation_bytes=int(kept + model_config.hidden_size * itemsize * tokens * (layers + 1)),
    )  # fmt: skip


def _num_slots(config: EngineConfig, partition: Partition, left: int) -> int:
    everything = len(partition.blocks) + GRADIENT_SLOTS
    if config.max_blocks is None:
        # Half of what is free, up to the whole model: activations and logits need the other half.
        slots = max(SMALLEST_ARENA, min(everything, max(0, left) // 2 // config.block_bytes))
    else:
        slots = min(config.max_blocks, max(everything, SMALLEST_ARENA))
    if slots < SMALLEST_ARENA:
        raise ArenaTooSmall(slots=slots, needed=SMALLEST_ARENA)
    return slots


def _micro_batch(config: EngineConfig, bytes_per_token: float, budget: float) -> int:
    """The largest even split of the global batch whose activations fit."""
    most_tokens = min(MICRO_BATCH_TOKENS, budget / max(bytes_per_token, 1.0))
    most = max(1, int(most_tokens // config.sequence_length))
    return math.ceil(config.global_batch / math.ceil(config.global_batch / min(most, config.global_batch)))


def _kept_bytes_per_token(model_config: Any, itemsize: int) -> float:
    """Bytes that autograd keeps for one token over all layers: an estimate from widths, checked against runs.

    A layer keeps about 8 tensors of the hidden width (norms in fp32 count twice), q, k, v and the attention's output,
    and 4 of the feed-forward width.
    """
    hidden = model_config.hidden_size
    ffn = getattr(model_config, "intermediate_size", None) or getattr(model_config, "n_inner", None) or 4 * hidden
    heads = model_config.num_attention_heads
    head_dim = getattr(model_config, "head_dim", None) or hidden // heads
    return model_config.num_hidden_layers * (
        hidden * (8 * itemsize + 12) + 4 * heads * head_dim * itemsize + 4 * ffn * itemsize
    )


def _free_host() -> int:
    return free_device_memory(torch.device("cpu"))
