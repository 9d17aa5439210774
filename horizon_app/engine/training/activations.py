"""How many sequences pass at once, which layers keep what is inside them, and where the inputs of the others wait."""

import math
from dataclasses import dataclass
from typing import Any

from horizon_app.contracts.run_spec import AccumulationPolicy, Disk, Recompute, ScheduleOrder
from horizon_app.engine.optim.accumulation import MOST_STEPS
from horizon_app.engine.training.config import MICRO_BATCH_TOKENS, EngineConfig

INPUT_SHARE = 0.5
"""Share of the activations' budget that waiting layer inputs may take on the device before they move to the host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Activations:
    """Numbers decided once, before memory is taken."""

    micro_batch: int
    kept_layers: int  # that keep what is inside them for the backward: the last ones
    layers_recomputed: int  # the others
    host_inputs: bool  # whether the inputs of the layers that run again wait on the host
    waiting_inputs: int  # at most, of one sequence and layer each
    fixed_bytes: int  # whatever the micro-batch, without logits
    bytes_per_sequence: float  # for each sequence of a micro-batch


def plan_activations(config: EngineConfig, model_config: Any, budget: float, *, ram_is_short: bool) -> Activations:
    """Decide what the spec leaves to us, within `budget` bytes of the device.

    `ram_is_short`: the device is the CPU, and planes of the model lie on disk for want of RAM.
    """
    layers, sequence = model_config.num_hidden_layers, config.sequence_length
    per_layer = _kept_bytes_per_token(model_config, config.compute_dtype.itemsize) * sequence
    keeps_all = config.recompute is Recompute.NEVER or (
        config.recompute is Recompute.AUTO and per_layer * layers * config.global_batch <= budget
    )
    per_call = per_layer * layers if keeps_all else per_layer
    micro = min(config.micro_batch or _micro_batch(config, per_call, budget), config.global_batch)
    # Every sequence between two layers has its hidden states on the device, and those that wait for the way down.
    most = _most_sequences(config, micro)
    passing = model_config.hidden_size * sequence * config.compute_dtype.itemsize
    passing *= most if _is_layer_major(config) else micro
    host_inputs = not keeps_all and _inputs_on_host(config, passing * layers, budget)
    room = budget - per_call * micro - (0 if host_inputs else passing * layers)
    kept_layers = _kept_layers(
        config, layers, keeps_all=keeps_all, fitting=0 if ram_is_short else room // per_layer // most
    )
    settled = config.micro_batch is not None and config.keep_global_batch  # the micro-batch never grows
    waiting = micro if settled and not _is_layer_major(config) else most
    kept = per_layer * kept_layers * (config.global_batch if keeps_all else most)
    return Activations(
        micro_batch=micro, kept_layers=kept_layers, layers_recomputed=layers - kept_layers, host_inputs=host_inputs,
        waiting_inputs=waiting * (layers - kept_layers) if host_inputs else 0,
        fixed_bytes=int(kept) + passing * (1 + (kept_layers if host_inputs else layers)),
        bytes_per_sequence=0.0 if kept_layers == layers else per_layer,
    )  # fmt: skip


def _kept_layers(config: EngineConfig, layers: int, *, keeps_all: bool, fitting: float) -> int:
    if config.kept_layers is not None:
        return min(config.kept_layers, layers)
    if keeps_all:
        return layers
    return min(layers, max(0, int(fitting))) if config.recompute is Recompute.AUTO else 0


def _is_layer_major(config: EngineConfig) -> bool:
    return config.order is ScheduleOrder.LAYER_MAJOR


def _most_sequences(config: EngineConfig, micro_batch: int) -> int:
    """The most sequences that an optimizer step may ever have."""
    grows = config.accumulation is AccumulationPolicy.ADAPTIVE and not config.keep_global_batch
    return max(config.global_batch, micro_batch * MOST_STEPS if grows else 0)


def _inputs_on_host(config: EngineConfig, waiting: int, budget: float) -> bool:
    """Whether inputs of layers wait on the host: where the device has no room, and the host is more than it."""
    if config.host_inputs is not None:
        return config.host_inputs
    return waiting > budget * INPUT_SHARE and (config.device.type != "cpu" or config.disk is not Disk.OFF)


def _micro_batch(config: EngineConfig, bytes_per_sequence: float, budget: float) -> int:
    """The largest even split of the global batch whose activations fit."""
    most = max(1, int(min(MICRO_BATCH_TOKENS / config.sequence_length, budget / max(bytes_per_sequence, 1.0))))
    return math.ceil(config.global_batch / math.ceil(config.global_batch / min(most, config.global_batch)))


def _kept_bytes_per_token(model_config: Any, itemsize: int) -> float:
    """Bytes that autograd keeps for one token in one layer: an estimate from widths, checked against runs.

    A layer keeps about 8 tensors of the hidden width (norms in fp32 count twice), q, k, v and the attention's output,
    and 4 of the feed-forward width.
    """
    hidden = model_config.hidden_size
    ffn = getattr(model_config, "intermediate_size", None) or getattr(model_config, "n_inner", None) or 4 * hidden
    ffn = max(ffn) if isinstance(ffn, list) else ffn  # of each layer
    heads = getattr(model_config, "num_attention_heads", None) or 1
    head_dim = getattr(model_config, "head_dim", None) or hidden // heads
    return hidden * (8 * itemsize + 12) + 4 * heads * head_dim * itemsize + 4 * ffn * itemsize
