"""What can go wrong in the engine, one class a cause, with the numbers as fields."""


class EngineError(Exception):
    """Root of all errors that the engine raises on purpose."""


class UnsupportedModel(EngineError):
    """The model can't be trained by this engine; the message names the reason."""


class WeightsUnusable(EngineError):
    """The checkpoint's tensors don't match the model: missing, of another shape, or unreadable."""


class ArenaTooSmall(EngineError):
    """The arena has fewer slots than one compute step needs at once."""

    def __init__(self, *, slots: int, needed: int) -> None:
        self.slots, self.needed = slots, needed
        super().__init__(
            f"offload.max_gpu_blocks is {slots}, but a step needs {needed} slots at once (one for weights, one for "
            f"gradients); set it to {needed} or more"
        )


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
            f"the {tier} tier needs {needed_bytes / 2**20:,.0f} MiB, but {free_bytes / 2**20:,.0f} MiB are free; {fix}"
        )


class DeviceUnavailable(EngineError):
    """The device that the spec names is not there."""


class NonFiniteGradient(EngineError):
    """A loss or gradient is NaN or infinite; nothing was updated with it."""

    def __init__(self, *, step: int, stage: str, loss: float) -> None:
        self.step, self.stage, self.loss = step, stage, loss
        super().__init__(
            f"optimizer step {step}: the gradient of stage {stage} is not finite (loss {loss}); the weights keep their "
            f"values of step {step - 1}. Lower training.learning_rate, clip with training.max_grad_norm, or compute in "
            "fp32"
        )


class TransferFailed(EngineError):
    """A copy between two tiers did not end well; the cause is chained."""


class BadBatch(EngineError):
    """The data can't be used with this model: a token id outside of the embedding, or nothing to train on."""
