"""What can go wrong in the engine, one class a cause, with the numbers as fields."""

from collections.abc import Sequence
from pathlib import Path

from horizon_app.contracts.sizes import show_bytes


class EngineError(Exception):
    """Root of all errors that the engine raises on purpose."""


class BuildStopped(EngineError):
    """The engine was asked to stop while it read the weights."""


class UnsupportedModel(EngineError):
    """The model can't be trained by this engine; the message names the reason."""


class WeightsUnusable(EngineError):
    """The checkpoint's tensors don't match the model: missing, of another shape, or unreadable."""


class CheckpointUnusable(EngineError):
    """The state beside a checkpoint's weights is not there, or not that of this model."""


class ArenaTooSmall(EngineError):
    """The arena has fewer slots than one compute step needs at once."""

    def __init__(self, *, slots: int, needed: int) -> None:
        self.slots, self.needed = slots, needed
        super().__init__(
            f"offload.max_gpu_blocks is {slots}, but a step needs {needed} slots at once (one for weights, one for "
            f"gradients); set it to {needed} or more"
        )


class KnobRefused(EngineError):
    """A knob can't have the value that was asked for while the run runs."""


class BlockTooSmall(EngineError):
    """A block can't hold one row of a parameter."""

    def __init__(self, *, parameter: str, row_bytes: int, block_bytes: int) -> None:
        self.parameter, self.row_bytes, self.block_bytes = parameter, row_bytes, block_bytes
        super().__init__(
            f"offload.param_block_size is {block_bytes} bytes, but one row of {parameter} has {row_bytes}; "
            f"set it to {row_bytes} bytes or more"
        )


class TierExhausted(EngineError):
    """A tier can't hold what the run needs."""

    def __init__(self, *, tier: str, needed_bytes: int, free_bytes: int, fix: str) -> None:
        self.tier, self.needed_bytes, self.free_bytes = tier, needed_bytes, free_bytes
        super().__init__(
            f"the {tier} tier needs {show_bytes(needed_bytes)}, but {show_bytes(free_bytes)} are free; {fix}"
        )


class DeviceUnavailable(EngineError):
    """The device that the spec names is not there."""


class NonFiniteGradient(EngineError):
    """A loss or gradient is NaN or infinite; nothing was updated with it."""

    def __init__(self, *, step: int, stage: str, loss: float, sequences: Sequence[str] = ()) -> None:
        self.step, self.stage, self.loss, self.sequences = step, stage, loss, tuple(sequences)
        where = f" First not finite: {', '.join(sequences[:4])}{' and more' if len(sequences) > 4 else ''}."
        super().__init__(
            f"optimizer step {step}: the gradient of stage {stage} is not finite (loss {loss}); the weights keep their "
            f"values of step {step - 1}.{where if sequences else ''} Look at that data and at the weights with "
            "`horizon model inspect`; lower training.learning_rate, set training.max_grad_norm, or compute in fp32"
        )


class TransferFailed(EngineError):
    """A copy between two tiers did not end well; the cause is chained."""


class BadBatch(EngineError):
    """The data can't be used with this model: a token id outside of the embedding, or nothing to train on."""


class DiskUnusable(EngineError):
    """The disk tier's folder is missing and can't be made, is no folder, can't be written, or has gone."""

    def __init__(self, *, folder: Path, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(
            f"the disk tier can't use {folder}: {reason}; set offload.disk_path to a folder on a local disk that can "
            "be written"
        )


class DiskFull(EngineError):
    """The volume of the disk tier, or a quota on it, has no room for what is to be written."""

    def __init__(self, *, needed_bytes: int, free_bytes: int, folder: Path) -> None:
        self.needed_bytes, self.free_bytes, self.folder = needed_bytes, free_bytes, folder
        quota = ", so that it must be a quota that is reached" if free_bytes >= needed_bytes else ""
        super().__init__(
            f"the disk tier needs {show_bytes(needed_bytes)} in {folder}, but {show_bytes(free_bytes)} are "
            f"free there{quota}; free some space, or set offload.disk_path to a folder on a larger volume"
        )


class DiskCorrupt(EngineError):
    """A page of the disk tier does not hold what was last written to it; nothing was computed with it."""

    def __init__(self, *, page: int, expected: str, found: str) -> None:
        self.page, self.expected, self.found = page, expected, found
        super().__init__(
            f"page {page} of the disk tier does not hold what was written: expected {expected}, found {found}. Nothing "
            "was computed with it; check the disk (or set offload.disk_path to another one) and resume from the last "
            "checkpoint"
        )


class DiskFailed(EngineError):
    """The disk tier could not read or write; `page` is None where it was about the file as a whole."""

    def __init__(self, *, operation: str, page: int | None, reason: str) -> None:
        self.operation, self.page, self.reason = operation, page, reason
        place = "its file" if page is None else f"page {page}"
        super().__init__(
            f"the disk tier could not {operation} {place}: {reason}; check the disk (or set offload.disk_path to "
            "another one) and resume from the last checkpoint"
        )


class NonFiniteMoment(EngineError):
    """A moment of AdamW has grown beyond fp32, so that no scale fits it."""

    def __init__(self, *, which: str) -> None:
        self.which = which
        super().__init__(
            f"the {which} moment of AdamW is not finite and can't be kept in 8 bits: a gradient was finite, but its "
            "square is above 3.4e38. Lower training.learning_rate, clip with training.max_grad_norm, or set "
            "precision.optimizer_state to fp32 to see which weights grow"
        )


class LossScaleExhausted(EngineError):
    """float16 overflows at every loss scale that may be tried; nothing was updated with it."""

    def __init__(self, *, step: int, stage: str, scale: float, loss: float, why: str, fix: str) -> None:
        self.step, self.stage, self.scale, self.loss = step, stage, scale, loss
        super().__init__(
            f"optimizer step {step}: float16, which ends at 65504, overflows at loss scale {scale:g}, first in the "
            f"gradient of stage {stage} (loss {loss}); {why}. The weights keep their values of step {step - 1}. {fix}"
        )


class OutOfDeviceMemory(EngineError):
    """The device has no room for a micro-batch that may not be made smaller."""

    def __init__(self, *, micro_batch: int, sequences: int) -> None:
        self.micro_batch, self.sequences = micro_batch, sequences
        smaller = "" if micro_batch == 1 else "set training.micro_batch_size to auto or to less, "
        super().__init__(
            f"the device has no memory left for micro-batches of {micro_batch} (of the optimizer step's {sequences} "
            f"sequences); {smaller}set compute.recompute to always, or lower offload.max_gpu_blocks or "
            "data.sequence_length"
        )
