"""From a run spec to what the engine runs with: every `auto` decided, with the reason where it is decided."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from horizon_app.contracts.run_spec import (
    AccumulationPolicy,
    Compute,
    Disk,
    Init,
    LrSchedule,
    OptimizerState,
    Policy,
    Recompute,
    RunSpec,
    ScheduleOrder,
)
from horizon_app.engine.errors import DeviceUnavailable
from horizon_app.engine.hardware.probe import device_memory

MIB = 1 << 20
LOGITS_BUDGET_BYTES = 160 * MIB
ACTIVATION_SHARE = 0.7
"""Share that activations may take of the memory that everything known leaves; the rest is for what their estimate
misses, and for whatever else runs."""
AUTO_WINDOW_START = 3
"""Compute steps that the window `auto` begins with."""
MICRO_BATCH_TOKENS = 8192
"""Above this, larger micro-batches no longer make the products faster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineConfig:
    """Everything that the engine is told. `None` means that the model's size decides (see `Sizes`)."""

    model_dir: Path
    init: Init
    device: torch.device
    compute_dtype: torch.dtype
    block_bytes: int
    window: int | None  # None adjusts itself
    max_blocks: int | None
    policy: Policy
    host_limit_bytes: int | None
    disk: Disk
    disk_dir: Path
    disk_limit_bytes: int | None
    recompute: Recompute
    order: ScheduleOrder
    keep_fp32: tuple[str, ...]
    loss_scale: float | None  # None: dynamic, where the compute dtype is fp16
    optimizer_state: OptimizerState
    gradient_ema: float
    accumulation: AccumulationPolicy
    keep_global_batch: bool
    global_batch: int
    micro_batch: int | None
    sequence_length: int
    learning_rate: float
    lr_schedule: LrSchedule
    warmup: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    max_grad_norm: float
    seed: int
    update_threads: int  # threads that update weights beside the compute; 0: the training thread does, between stages
    kept_layers: int | None = None  # that keep what is inside them; None: as `recompute` says
    host_inputs: bool | None = None  # whether layer inputs wait on the host; None: where the device has no room
    input_limit_bytes: int | None = None  # RAM for them, beyond which they go to disk; None: what the host has left
    logits_budget_bytes: int = LOGITS_BUDGET_BYTES

    @property
    def first_window(self) -> int:
        """The prefetch window of the first optimizer step."""
        return AUTO_WINDOW_START if self.window is None else self.window

    @classmethod
    def from_spec(cls, spec: RunSpec, model_dir: Path, disk_dir: Path) -> "EngineConfig":
        """Resolve what does not depend on the model; the disk tier's file goes into `disk_dir`.

        Raises DeviceUnavailable.
        """
        device = resolve_device(spec.offload.device)
        training, offload, precision = spec.training, spec.offload, spec.precision
        micro = training.micro_batch_size if isinstance(training.micro_batch_size, int) else None
        if micro is None and isinstance(spec.accumulation.steps, int):
            micro = math.ceil(training.global_batch_size / spec.accumulation.steps)
        return cls(
            model_dir=model_dir, init=spec.model.init, device=device,
            compute_dtype=resolve_dtype(precision.compute, device),
            block_bytes=resolve_block_bytes(offload.param_block_size, device),
            window=offload.prefetch_window if isinstance(offload.prefetch_window, int) else None,
            max_blocks=offload.max_gpu_blocks if isinstance(offload.max_gpu_blocks, int) else None,
            policy=offload.policy,
            host_limit_bytes=offload.host_memory if isinstance(offload.host_memory, int) else None,
            disk=offload.disk, disk_dir=disk_dir, disk_limit_bytes=offload.disk_memory,
            recompute=spec.compute.recompute, order=spec.compute.schedule, keep_fp32=tuple(precision.keep_fp32),
            loss_scale=precision.loss_scale if isinstance(precision.loss_scale, float | int) else None,
            optimizer_state=precision.optimizer_state, gradient_ema=training.gradient_ema,
            accumulation=spec.accumulation.policy, keep_global_batch=spec.accumulation.keep_global_batch,
            global_batch=training.global_batch_size, micro_batch=micro,
            sequence_length=spec.data.sequence_length, learning_rate=training.learning_rate,
            lr_schedule=training.schedule, warmup=training.warmup_steps, weight_decay=training.weight_decay,
            betas=training.betas, eps=training.eps, max_grad_norm=training.max_grad_norm, seed=training.seed,
            update_threads=0 if device.type == "cpu" else max(1, torch.get_num_threads() // 2),
        )  # fmt: skip


def resolve_device(word: str) -> torch.device:
    """The device that a spec's word means. Raises DeviceUnavailable."""
    if word == "auto":
        word = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(word)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise DeviceUnavailable(f"offload.device is {word}, but {count} CUDA devices are usable; use cpu or auto")
        device = torch.device("cuda", device.index or 0)
    return device


def resolve_dtype(word: Compute, device: torch.device) -> torch.dtype:
    """bf16 where the device multiplies it fast (matrix units), else fp32."""
    if word is Compute.AUTO:
        fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else torch.cpu._is_amx_tile_supported()
        return torch.bfloat16 if fast else torch.float32
    return {Compute.FP32: torch.float32, Compute.BF16: torch.bfloat16, Compute.FP16: torch.float16}[word]


def resolve_block_bytes(size: int | str, device: torch.device) -> int:
    """The mission's rule for `auto`: sqrt(device MiB / 100) MiB, in whole 64 KiB."""
    if isinstance(size, int):
        return size
    mib = device_memory(device) / MIB
    return max(1, round(math.sqrt(mib / 100) * 16)) * (MIB // 16)
