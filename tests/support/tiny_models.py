"""Tiny checkpoints with random weights, and batches for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen3Config

from horizon_app.data.batches import IGNORE, Batch

VOCABULARY = 320
TOKENS = 24

CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(
        hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=VOCABULARY, max_position_embeddings=128, tie_word_embeddings=False,
    ),
    "qwen3": lambda: Qwen3Config(
        hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=24, vocab_size=VOCABULARY, max_position_embeddings=128, tie_word_embeddings=True,
    ),
    "gpt2": lambda: GPT2Config(
        n_embd=64, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0,
    ),
}  # fmt: skip


def write_checkpoint(family: str, folder: Path, seed: int = 0) -> Path:
    """A checkpoint of `family` with random weights in fp32. GPT-2's attention biases are made non-zero."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(CONFIGS[family](), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class RandomBatches:
    """Rows of random tokens: two packed samples (or one) and some padding a row, parts of them untrained."""

    sequences: int = 4
    tokens: int = TOKENS
    vocabulary: int = VOCABULARY
    packed: bool = True

    def batches(self, first_step: int) -> Iterator[Batch]:
        """The batch of each step depends on the step alone."""
        step = first_step
        while True:
            yield self.batch(step)
            step += 1

    def batch(self, step: int) -> Batch:
        """Batch number `step`."""
        rng = np.random.default_rng(step)
        shape = (self.sequences, self.tokens)
        ids = rng.integers(0, self.vocabulary, shape)
        border, end = self.tokens // 3, self.tokens - 3
        positions = np.tile(np.arange(self.tokens), (self.sequences, 1))
        if self.packed:
            positions[:, border:] -= border
        positions[:, end:] = np.arange(self.tokens - end)
        labels = ids.copy()
        labels[:, 0] = labels[:, border] = IGNORE
        labels[:, end:] = IGNORE
        labels[0, : border + 4] = IGNORE  # micro-batches with unlike numbers of trained tokens
        return Batch(input_ids=ids, labels=labels, position_ids=positions, num_samples=2 * self.sequences)
