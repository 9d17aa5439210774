"""What the benchmark compares, each in a process of its own that prints seconds a step and peak memory as JSON.

python -m tests.bench.variants VARIANT MODEL PRECISION STEPS
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, LlamaConfig

from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.data.batches import IGNORE, Batch
from horizon_app.engine.telemetry.sink import NullSink
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.engine import Engine

SEQUENCES, TOKENS, VOCABULARY = 4, 512, 32000
BLOCK = 4 << 20
SMALL_ARENA = 0.08

MODELS: dict[str, dict[str, Any]] = {
    "50M": {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 6, "num_attention_heads": 8},
    "160M": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
}


class SameShape:
    """Random tokens; every step has another batch of the same shape."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Without end."""
        step = first_step
        while True:
            yield batch(step)
            step += 1


def batch(step: int) -> Batch:
    """Batch number `step`, every token trained."""
    ids = np.random.default_rng(step).integers(0, VOCABULARY, (SEQUENCES, TOKENS))
    labels = ids.copy()
    labels[:, 0] = IGNORE
    positions = np.tile(np.arange(TOKENS), (SEQUENCES, 1))
    return Batch(input_ids=ids, labels=labels, position_ids=positions, num_samples=SEQUENCES)


def config(model: str) -> LlamaConfig:
    """A Llama of about the named size."""
    return LlamaConfig(vocab_size=VOCABULARY, tie_word_embeddings=False, **MODELS[model])


def plain_step(model: str, precision: str) -> Callable[[int], object]:
    """One step of the plain in-memory loop: fp32 weights, autocast where bf16 is asked, fused AdamW, clipping."""
    torch.manual_seed(0)
    network = AutoModelForCausalLM.from_config(config(model), dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.0, fused=True)

    def step(number: int) -> None:
        data = batch(number)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            logits = network(input_ids=torch.from_numpy(data.input_ids), use_cache=False).logits
        labels = torch.from_numpy(data.labels)[:, 1:].reshape(-1)
        F.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY).float(), labels, ignore_index=IGNORE).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def engine_step(model: str, precision: str, *, share: float | None) -> Callable[[int], object]:
    """One step of the engine; `share` of the model's blocks fit in the arena, None: all of them."""
    folder = Path(tempfile.mkdtemp(prefix="horizon-bench-"))
    config(model).save_pretrained(folder)

    def build(blocks: int | str) -> Engine:
        spec = parse_spec(
            {
                "model": {"path": "unused", "init": "random"},
                "data": {"path": "unused", "sequence_length": TOKENS},
                "training": {"global_batch_size": SEQUENCES, "micro_batch_size": SEQUENCES, "learning_rate": 1e-4},
                "precision": {"compute": precision},
                "offload": {"device": "cpu", "param_block_size": BLOCK, "max_gpu_blocks": blocks},
            }
        )
        return Engine(EngineConfig.from_spec(spec, folder, folder), NullSink())

    num_parameters = sum(
        p.numel() for p in AutoModelForCausalLM.from_config(config(model), dtype=torch.bfloat16).parameters()
    )
    num_blocks = -(-num_parameters * (2 if precision == "bf16" else 4) // BLOCK)
    engine = build("auto" if share is None else max(2, round(num_blocks * share)))
    return lambda number: engine.train(SameShape(), number, lambda: False, lambda _: None)


VARIANTS: dict[str, Callable[[str, str], Callable[[int], object]]] = {
    "plain": plain_step,
    "everything fits": lambda model, precision: engine_step(model, precision, share=None),
    "arena at 8%": lambda model, precision: engine_step(model, precision, share=SMALL_ARENA),
}


def measure(variant: str, model: str, precision: str, steps: int) -> dict[str, object]:
    """Seconds of each step after one warm-up step, and the process's peak memory."""
    step = VARIANTS[variant](model, precision)
    step(1)
    seconds: list[float] = []
    for number in range(2, steps + 2):
        begin = time.perf_counter()
        step(number)
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))) + "\n")
