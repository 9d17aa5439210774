"""The closed sets of words of the run spec."""

from enum import StrEnum


class Init(StrEnum):
    """Where the first weights come from."""

    PRETRAINED = "pretrained"
    RANDOM = "random"


class DataFormat(StrEnum):
    """Shape of the rows."""

    AUTO = "auto"
    MESSAGES = "messages"
    SHAREGPT = "sharegpt"
    ALPACA = "alpaca"
    PROMPT_COMPLETION = "prompt_completion"
    TEXT = "text"


class TrainOn(StrEnum):
    """Which tokens count in the loss."""

    COMPLETIONS = "completions"
    ALL = "all"


class ChatTemplate(StrEnum):
    """What conversations are rendered with."""

    TOKENIZER = "tokenizer"
    CHATML = "chatml"
    LLAMA3 = "llama3"
    GEMMA = "gemma"
    ALPACA = "alpaca"


class BadRows(StrEnum):
    """What happens where a row of the data can't be used."""

    REFUSE = "refuse"
    SKIP = "skip"


class TooLong(StrEnum):
    """What happens to a conversation or answer that is longer than a sequence."""

    TRUNCATE = "truncate"
    DROP = "drop"


class LrSchedule(StrEnum):
    """Shape of the learning rate after the warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


class Compute(StrEnum):
    """Number format of the products."""

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class OptimizerState(StrEnum):
    """Number format of the moments."""

    FP32 = "fp32"
    INT8 = "int8"


class Policy(StrEnum):
    """Which block leaves a full tier."""

    CLOCK_PRO = "clock_pro"
    SCHEDULE = "schedule"
    LRU = "lru"
    CLOCK = "clock"
    OPTIMAL = "optimal"


class Disk(StrEnum):
    """Whether the disk tier is used."""

    AUTO = "auto"
    OFF = "off"
    ON = "on"


class AccumulationPolicy(StrEnum):
    """How the number of micro-batches is chosen."""

    FIXED = "fixed"
    ADAPTIVE = "adaptive"


class ParameterCompression(StrEnum):
    """How weights travel to the device."""

    NONE = "none"
    DELTA = "delta"


class GradientCompression(StrEnum):
    """How gradients travel to the host."""

    NONE = "none"
    INT8 = "int8"
    ONE_BIT = "one_bit"


class ActivationCompression(StrEnum):
    """How kept activations are stored."""

    NONE = "none"
    INT8 = "int8"


class Recompute(StrEnum):
    """Whether activations inside a layer are recomputed in the backward."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class ScheduleOrder(StrEnum):
    """Order of layers and micro-batches."""

    LAYER_MAJOR = "layer_major"
    MICRO_BATCH_MAJOR = "micro_batch_major"
