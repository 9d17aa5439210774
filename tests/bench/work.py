"""The models and batches of the benchmark, in plain numbers: whoever starts processes stays small."""

from dataclasses import dataclass

VOCABULARY = 32000
SEQUENCES, TOKENS = 4, 512
LEARNING_RATE, BETAS, MAX_NORM = 1e-4, (0.9, 0.95), 1.0

SHAPES: dict[str, dict[str, int]] = {
    "3M": {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2},
    "50M": {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 6, "num_attention_heads": 8},
    "160M": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    "1B": {
        "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 18, "num_attention_heads": 32,
        "num_key_value_heads": 4,
    },
}  # fmt: skip
"""Llamas of about the named sizes; 3M is for trying the benchmark itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one optimizer step trains: a Llama of `SHAPES`, on sequences of one length."""

    model: str
    sequences: int = SEQUENCES
    tokens: int = TOKENS

    @property
    def recompute(self) -> bool:
        """Whether loops that keep everything in memory recompute their layers: 1B does not fit in 24 GiB without."""
        return self.model == "1B"


def num_parameters(model: str) -> int:
    """How many parameters the Llama has, embedding and head apart."""
    shape = SHAPES[model]
    hidden, heads = shape["hidden_size"], shape["num_attention_heads"]
    kv_width = hidden * shape.get("num_key_value_heads", heads) // heads
    layer = 2 * hidden * hidden + 2 * hidden * kv_width + 3 * hidden * shape["intermediate_size"] + 2 * hidden
    return 2 * VOCABULARY * hidden + shape["num_hidden_layers"] * layer + hidden
