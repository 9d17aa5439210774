"""The networks, batches and loss that every loop shares. Imports nothing of ours but the numbers of `work`.

Rivals run in interpreters of their own, which hold torch and transformers only.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.bench.work import SHAPES, VOCABULARY, Work


def llama_config(model: str) -> LlamaConfig:
    """The configuration of one of `SHAPES`."""
    shape: dict[str, Any] = {**SHAPES[model]}
    return LlamaConfig(vocab_size=VOCABULARY, tie_word_embeddings=False, **shape)


def build_network(work: Work, *, device: str = "cpu", recompute: bool | None = None) -> Any:
    """The model in fp32, ready to train, with the same random weights in every loop; on `meta` without any."""
    torch.manual_seed(0)
    with torch.device(device):
        network = AutoModelForCausalLM.from_config(llama_config(work.model), dtype=torch.float32).train()
    if work.recompute if recompute is None else recompute:
        network.activation_checkpointing_enable()
    return network


def token_ids(work: Work, step: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Random tokens, others at every step. Shape: [sequences, tokens]."""
    return np.random.default_rng(step).integers(0, VOCABULARY, (work.sequences, work.tokens))


def loss_of(network: Any, work: Work, step: int) -> torch.Tensor:
    """Mean cross-entropy of predicting each next token of batch number `step`."""
    ids = torch.from_numpy(token_ids(work, step))
    logits = network(input_ids=ids, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY).float(), ids[:, 1:].reshape(-1))
