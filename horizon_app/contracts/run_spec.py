"""The run spec: what a run is asked to do. Typed, with units, bounds and defaults; unknown keys are errors."""

import re
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.spec_fields import (
    LossScale,
    Section,
    Size,
    SizeOrAuto,
    WindowOrAuto,
    Word,
    knob,
    later,
    only_now,
)
from horizon_app.contracts.spec_words import (
    AccumulationPolicy,
    ActivationCompression,
    Compute,
    Disk,
    GradientCompression,
    Init,
    LrSchedule,
    OptimizerState,
    ParameterCompression,
    Policy,
    Recompute,
    ScheduleOrder,
)

DEFAULT_STEPS = 200
"""Optimizer steps of a spec that names neither steps nor epochs."""

_MODULE_WORD = re.compile(r"[A-Za-z0-9_.]+")


_Prompt = Annotated[str, Field(pattern=r"\S", max_length=20_000)]


class ModelSpec(Section):
    """Which model is trained."""

    path: str = Field(
        min_length=1,
        description="Hugging Face checkpoint folder, relative to the spec file, or to the home folder over REST",
        json_schema_extra={"x-unit": "", "x-main": True, "x-live": False, "x-unavailable": []},
    )
    init: Init = knob(
        Init.PRETRAINED, "pretrained reads the weights; random needs config.json and the tokenizer only", main=True
    )


class TrainingSpec(Section):
    """How long and how fast it learns."""

    optimizer_steps: int | None = knob(
        None, "updates of the weights; 200 where epochs is not given either", unit="steps", ge=1, le=10**9, main=True
    )
    epochs: float | None = knob(None, "passes over the data, instead of optimizer_steps", unit="epochs", gt=0, le=10**6)
    global_batch_size: int = knob(
        8, "sequences per optimizer step, over all micro-batches", unit="sequences", ge=1, le=1 << 20, main=True
    )
    micro_batch_size: int | str = knob("auto", "sequences per call; auto is planned from free memory", unit="sequences")
    learning_rate: float = knob(2.0e-5, "peak learning rate", ge=0.0, le=10.0, main=True)
    schedule: LrSchedule = knob(
        LrSchedule.COSINE, "shape of the learning rate after the warm-up, counted in optimizer steps"
    )
    warmup_steps: float = knob(
        10, "optimizer steps of linear warm-up, or a fraction of all steps below 1", unit="steps", ge=0
    )
    weight_decay: float = knob(0.0, "AdamW's decoupled decay; never on norms and biases", ge=0.0, le=10.0)
    betas: tuple[float, float] = knob((0.9, 0.95), "AdamW's decay rates of the two moments")
    eps: float = knob(1.0e-8, "AdamW's term against division by zero", gt=0.0, le=1.0)
    max_grad_norm: float = knob(1.0, "the global gradient norm is clipped to this; 0 is off", ge=0.0, main=True)
    gradient_ema: float = knob(0.0, "decay of the moving average over gradients; 0 is off", ge=0.0, lt=1.0)
    seed: int = knob(0, "seed of random weights and dropout", ge=0, lt=1 << 63)

    @property
    def named_steps(self) -> int | None:
        """Optimizer steps; None where epochs are named, whose steps only the data tells."""
        return None if self.epochs is not None else self.optimizer_steps or DEFAULT_STEPS

    @field_validator("micro_batch_size")
    @classmethod
    def _micro_batch(cls, value: int | str) -> int | str:
        if value != "auto" and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{value!r} is neither auto nor a whole number from 1")
        return value

    @field_validator("betas")
    @classmethod
    def _betas(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not all(0.0 <= beta < 1.0 for beta in value):
            raise ValueError(f"{value} must both lie in [0, 1)")
        return value

    @field_validator("warmup_steps")
    @classmethod
    def _warmup(cls, value: float) -> float:
        if value >= 1 and value != int(value):
            raise ValueError(f"{value} is neither a whole number of steps nor a fraction below 1")
        return value

    @model_validator(mode="after")
    def _one_length(self) -> "TrainingSpec":
        if self.optimizer_steps is not None and self.epochs is not None:
            raise ValueError("optimizer_steps and epochs are both given; keep one")
        if isinstance(self.micro_batch_size, int) and self.micro_batch_size > self.global_batch_size:
            raise ValueError(
                f"micro_batch_size {self.micro_batch_size} is larger than global_batch_size {self.global_batch_size}"
            )
        return self


class PrecisionSpec(Section):
    """Number formats. The masters are fp32, always."""

    compute: Compute = knob(
        Compute.AUTO,
        "format of weights and products on the device; auto takes bf16 where it is fast, else fp32",
        main=True,
    )
    loss_scale: LossScale = knob(
        "dynamic", "dynamic, or a number above 0 that the loss is multiplied with throughout; fp16 only"
    )
    keep_fp32: list[str] = knob(
        ["norm"], "layers computed in fp32, by a part of their modules' names; norm always is one", max_length=100
    )
    optimizer_state: OptimizerState = knob(
        OptimizerState.FP32, "format of the moments; int8 takes a quarter of the memory and rounds them block by block"
    )

    @field_validator("loss_scale")
    @classmethod
    def _scale_of_fp16(cls, value: float | str, info: ValidationInfo) -> float | str:
        compute = info.data.get("compute")
        if value != "dynamic" and compute is not None and compute is not Compute.FP16:
            raise ValueError(
                f"{value} has no effect with precision.compute {compute.value}; set precision.compute to fp16 "
                "or leave loss_scale out"
            )
        return value

    @field_validator("keep_fp32")
    @classmethod
    def _module_words(cls, value: list[str]) -> list[str]:
        for word in value:
            if not _MODULE_WORD.fullmatch(word):
                raise ValueError(
                    f"{word!r} can't be part of a module's name; write words such as norm, lm_head or mlp.down_proj"
                )
        return value


class OffloadSpec(Section):
    """Where the blocks live and how they travel."""

    device: str = knob("auto", "auto, cpu, cuda or cuda:N", pattern=r"^(auto|cpu|cuda(:[0-9]+)?)$")
    share_device: bool = knob(
        False, "start beside other runs on the same device that say so too, instead of after them"
    )
    param_block_size: SizeOrAuto = knob(
        16 << 20, "bytes of a block in the compute dtype; auto is sqrt(device MiB / 100) MiB", unit="bytes", main=True
    )
    prefetch_window: WindowOrAuto = knob(
        3,
        "compute steps ahead for which blocks are brought in; 0 is off, auto follows the stall time",
        unit="compute steps",
        main=True,
        live=True,
    )
    max_gpu_blocks: int | str = knob(
        "auto",
        "slots in the arena of the device tier; auto takes what is free, up to the whole model",
        unit="blocks",
        main=True,
        live=True,
    )
    policy: Policy = knob(Policy.CLOCK_PRO, "which block leaves a full tier", main=True, live=True)
    host_memory: SizeOrAuto = knob(
        "auto",
        "limit of the host tier, beyond which planes live on disk; auto takes 80% of what is free, or less where "
        "arena, activations and libraries need more than the rest",
        unit="bytes",
    )
    disk: Annotated[Disk, Word] = knob(
        Disk.AUTO,
        "auto uses the disk tier where the host can't hold everything, on prepares it in any case, off never does",
    )
    disk_path: str | None = knob(None, "folder of the disk tier, on a local disk; the run's own folder where null")
    disk_memory: Size | None = knob(None, "limit of the disk tier; what is free on its volume where null", unit="bytes")

    @field_validator("disk_path", "disk_memory")
    @classmethod
    def _disk_not_off(cls, value: str | int | None, info: ValidationInfo) -> str | int | None:
        if value is not None and info.data.get("disk") is Disk.OFF:
            raise ValueError(f"{info.field_name} is given, but offload.disk is off; remove one of them")
        if value == "":
            raise ValueError("no folder named; write a path or null")
        return value

    @field_validator("max_gpu_blocks")
    @classmethod
    def _blocks(cls, value: int | str) -> int | str:
        if value != "auto" and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{value!r} is neither auto nor a whole number of blocks from 1")
        return value

    @field_validator("param_block_size")
    @classmethod
    def _block_size(cls, value: int | str) -> int | str:
        if isinstance(value, int) and (value < 4096 or value > 1 << 30 or value % 64):
            raise ValueError(f"{value} bytes; a block has 4KiB to 1GiB, a multiple of 64 bytes")
        return value


class AccumulationSpec(Section):
    """How many micro-batches make one optimizer step."""

    policy: AccumulationPolicy = knob(
        AccumulationPolicy.ADAPTIVE, "fixed, or adaptive: more micro-batches where device memory runs short"
    )
    steps: int | str = knob(
        "auto", "micro-batches per optimizer step; auto is global_batch_size / micro_batch_size", unit="micro-batches"
    )
    keep_global_batch: bool = knob(True, "adaptive then trades micro-batch size against steps")

    @field_validator("steps")
    @classmethod
    def _steps(cls, value: int | str) -> int | str:
        if value != "auto" and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{value!r} is neither auto nor a whole number from 1")
        return value


class CompressionSpec(Section):
    """Smaller copies; all off unless asked."""

    parameters: Annotated[ParameterCompression, later(ParameterCompression.DELTA, instead="none")] = knob(
        ParameterCompression.NONE, "delta sends changed elements only", unavailable=(ParameterCompression.DELTA,)
    )
    gradients: Annotated[
        GradientCompression, later(GradientCompression.INT8, GradientCompression.ONE_BIT, instead="none")
    ] = knob(
        GradientCompression.NONE,
        "gradients on the way to the host",
        unavailable=(GradientCompression.INT8, GradientCompression.ONE_BIT),
    )
    activations: Annotated[ActivationCompression, later(ActivationCompression.INT8, instead="none")] = knob(
        ActivationCompression.NONE, "kept layer inputs", unavailable=(ActivationCompression.INT8,)
    )


class ComputeSpec(Section):
    """How the products run."""

    fuse_linears: Annotated[bool, only_now(lambda v: v is False, "fused linears", "false")] = knob(
        False, "run q/k/v and gate/up as one product", unavailable=("true",)
    )
    cuda_graphs: Annotated[
        str | bool, only_now(lambda v: v in ("auto", "off", False), "CUDA graphs", "auto or off")
    ] = knob("auto", "capture and replay of fixed stages on CUDA", unavailable=("on",))
    recompute: Recompute = knob(
        Recompute.AUTO,
        "recompute what is inside a layer in the backward; auto keeps it for as many layers as memory allows",
    )
    schedule: ScheduleOrder = knob(
        ScheduleOrder.LAYER_MAJOR,
        "layer_major moves the weights once for all micro-batches, micro_batch_major keeps fewer activations",
    )
    cpu_layers: Annotated[
        float | str, Word, only_now(lambda v: v in ("auto", "off"), "layers on the CPU", "auto or off")
    ] = knob(
        "auto", "auto, off, or the complexity above which a layer is computed on the CPU", unavailable=("a threshold",)
    )


class CheckpointSpec(Section):
    """When the model is written to disk."""

    every: int = knob(
        100, "optimizer steps between checkpoints; 0 writes only at the end", unit="steps", live=True, ge=0
    )
    keep: int = knob(3, "how many of the newest stay, beside the best and pinned ones", unit="checkpoints", ge=1)


class EvaluationSpec(Section):
    """When the eval loss is measured, where there is eval data."""

    every: int = knob(
        50, "optimizer steps between evaluations, with one at the end; 0 never measures", unit="steps", live=True, ge=0
    )


class SamplesSpec(Section):
    """Text generated while training."""

    every: int = knob(
        0, "optimizer steps between samples, with one at the end; 0 is off", unit="steps", live=True, ge=0
    )
    prompts: list[_Prompt] = knob(
        [], "each is a user's message where the tokenizer has a chat template, else text to continue", max_length=16
    )
    max_new_tokens: int = knob(64, "most tokens of a sample", unit="tokens", ge=1, le=4096)
    temperature: float = knob(0.0, "0 takes the likeliest token each time; above, tokens are drawn", ge=0.0, le=10.0)
    top_p: float = knob(1.0, "tokens are drawn from the likeliest that together have this probability", gt=0.0, le=1.0)

    @model_validator(mode="after")
    def _has_prompts(self) -> "SamplesSpec":
        if self.every and not self.prompts:
            raise ValueError(f"every is {self.every}, but prompts is empty; write at least one prompt, or every: 0")
        return self


class RunSpec(Section):
    """One run, as asked. Everything has a default but model.path and data.path."""

    name: str | None = knob(None, "shown in the history; made from the model's name where absent", max_length=200)
    tags: list[str] = knob([], "words to filter by", max_length=50)
    notes: str = knob("", "free text", max_length=100_000)
    model: ModelSpec
    data: DataSpec
    training: TrainingSpec = TrainingSpec()
    precision: PrecisionSpec = PrecisionSpec()
    offload: OffloadSpec = OffloadSpec()
    accumulation: AccumulationSpec = AccumulationSpec()
    compression: CompressionSpec = CompressionSpec()
    compute: ComputeSpec = ComputeSpec()
    checkpoint: CheckpointSpec = CheckpointSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    samples: SamplesSpec = SamplesSpec()

    @model_validator(mode="after")
    def _accumulation_fits(self) -> "RunSpec":
        steps, micro, batch = self.accumulation.steps, self.training.micro_batch_size, self.training.global_batch_size
        if isinstance(steps, int) and isinstance(micro, int) and steps * micro != batch:
            raise ValueError(
                f"accumulation.steps {steps} x training.micro_batch_size {micro} = {steps * micro} sequences, "
                f"but training.global_batch_size is {batch}; set one of them to auto"
            )
        if isinstance(steps, int) and steps > batch:
            raise ValueError(f"accumulation.steps {steps} is more than training.global_batch_size {batch}")
        return self


def spec_schema() -> dict[str, Any]:
    """The JSON schema of the run spec, with units (`x-unit`) and what can't be chosen yet (`x-unavailable`)."""
    return RunSpec.model_json_schema(mode="validation")
