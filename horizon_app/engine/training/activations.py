"""How many sequences pass at once, which layers keep what is inside them, and where the inputs of the others wait."""

import math
from dataclasses import dataclass, replace
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
    layers: int
    kept_layers: int  # that keep what is inside them for the backward: the last ones
    kept_sequences: int | None  # whose kept layers exist at once; None: those of a micro-batch
    host_inputs: bool  # whether the inputs of the layers that run again wait on the host
    waiting_inputs: int  # at most, of one sequence and layer each
    layer_bytes: float  # of what is inside one layer, for one sequence
    passing_bytes: int  # of the hidden states between two layers

    @property
    def layers_recomputed(self) -> int:
        """Layers that run again before their backward."""
        return self.layers - self.kept_layers

    def num_bytes(self, micro_batch: int) -> int:
        """Bytes on the device with this micro-batch, without logits: an estimate."""
        kept = self.kept_layers * (self.kept_sequences or micro_batch)
        running = micro_batch if self.layers_recomputed else 0
        waiting = self.kept_layers if self.host_inputs else self.layers
        return int(self.layer_bytes * (kept + running)) + self.passing_bytes * (1 + waiting)

    def recomputing_all(self) -> "Activations":
        """The same where every layer runs again."""
        return replace(self, kept_layers=0)


def plan_activations(config: EngineConfig, model_config: Any, budget: float, *, ram_is_short: bool) -> Activations:
    """Decide what the spec leaves to us, within `budget` bytes of the device.

    `ram_is_short`: the device is the CPU, and planes of the model lie on disk for want of RAM.
    """
    layers, sequence = model_config.num_hidden_layers, config.sequence_length
    per_layer = _kept_bytes_per_token(model_config, config.compute_dtype.itemsize) * sequence
    never = config.recompute is Recompute.NEVER
    per_call = per_layer * layers if never else per_layer
    micro = min(config.micro_batch or _micro_batch(config, per_call, budget), config.global_batch)
    # Layer-major, all sequences of a step are on their way at once, which may become more; else those of a micro-batch.
    layer_major, most = config.order is ScheduleOrder.LAYER_MAJOR, _most_sequences(config, micro)
    at_first, at_most = (config.global_batch, most) if layer_major else (micro, micro)
    keeps_all = never or (config.recompute is Recompute.AUTO and per_layer * layers * at_first <= budget)
    passing = model_config.hidden_size * sequence * config.compute_dtype.itemsize * at_most
    host_inputs = not keeps_all and _inputs_on_host(config, passing * layers, budget)
    room = budget - per_layer * micro - (0 if host_inputs else passing * layers)
    fitting = 0 if ram_is_short else room // per_layer // at_most
    kept_layers = _kept_layers(config, layers, keeps_all=keeps_all, fitting=fitting)
    settled = config.micro_batch is not None and config.keep_global_batch  # the micro-batch never grows
    waiting = micro if settled and not layer_major else most
    return Activations(
        micro_batch=micro, layers=layers, kept_layers=kept_layers,
        kept_sequences=(at_first if keeps_all else at_most) if layer_major else None,
        host_inputs=host_inputs, waiting_inputs=waiting * (layers - kept_layers) if host_inputs else 0,
        layer_bytes=per_layer, passing_bytes=passing,
    )  # fmt: skip


def _kept_layers(config: EngineConfig, layers: int, *, keeps_all: bool, fitting: float) -> int:
    if config.kept_layers is not None:
        return min(config.kept_layers, layers)
    if keeps_all:
        return layers
    return min(layers, max(0, int(fitting))) if config.recompute is Recompute.AUTO else 0


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
