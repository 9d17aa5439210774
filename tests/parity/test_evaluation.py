"""The loss on held-out data: that of a plain loop, whatever the batches; and training never notices it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, GPT2Config

from horizon_app.data.batches import IGNORE, Batch
from horizon_app.engine.errors import BadBatch
from horizon_app.engine.training.engine import Engine
from horizon_app.engine.training.requests import Sampling
from tests.support.engines import running, train, weights_of
from tests.support.tiny_models import VOCABULARY, RandomBatches, write_checkpoint

SOURCE = RandomBatches()
HELD_OUT = [RandomBatches(sequences=5).batch(1000 + number) for number in range(2)]
TIGHT: dict[str, Any] = {"param_block_size": "16KiB", "max_gpu_blocks": 4}


def rows(batches: Sequence[Batch], size: int) -> list[Batch]:
    """The same sequences in batches of another size."""
    whole: dict[str, Any] = {
        name: np.concatenate([getattr(b, name) for b in batches]) for name in ("input_ids", "labels", "position_ids")
    }
    count = len(whole["input_ids"])
    return [
        Batch(**{name: array[start : start + size] for name, array in whole.items()}, num_samples=0)
        for start in range(0, count, size)
    ]


def plain_loss(folder: Path) -> float:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    total, count = 0.0, 0
    for batch in HELD_OUT:
        with torch.no_grad():
            logits = model(
                input_ids=torch.from_numpy(batch.input_ids), position_ids=torch.from_numpy(batch.position_ids),
                use_cache=False,
            ).logits  # fmt: skip
        labels = torch.from_numpy(batch.labels)[:, 1:].reshape(-1)
        flat = logits[:, :-1].reshape(-1, logits.shape[-1])
        total += float(F.cross_entropy(flat, labels, ignore_index=IGNORE, reduction="sum"))
        count += batch.num_trained_tokens
    return total / count


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_evaluation_equals_a_plain_loop_whatever_the_batch(family: str, tmp_path: Path) -> None:
    folder = write_checkpoint(family, tmp_path)
    found: list[float] = []
    for micro_batch, size in ((1, 1), (2, 5), (4, 10)):
        with running(folder, offload=TIGHT, training={"micro_batch_size": micro_batch}) as engine:
            evaluation = engine.evaluate(rows(HELD_OUT, size))
            assert evaluation.num_tokens == sum(batch.num_trained_tokens for batch in HELD_OUT)
            assert evaluation.perplexity == pytest.approx(np.exp(evaluation.loss))
            assert engine.peaks().device_blocks <= 4
            counters = engine._m.counters
            assert counters.hits + counters.late + counters.misses == counters.accesses
            found.append(evaluation.loss)
    assert found == pytest.approx([plain_loss(folder)] * 3, rel=1e-6)


def write_dropout_model(folder: Path) -> Path:
    torch.manual_seed(0)
    config = GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=64, resid_pdrop=0.2)
    config.bos_token_id = config.eos_token_id = None
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "sections",
    [
        {"offload": TIGHT},
        {"offload": {**TIGHT, "disk": "on"}, "precision": {"compute": "bf16"}},
        {"offload": {}, "compute": {"recompute": "never"}},
    ],
    ids=["arena", "disk", "shared"],
)
def test_training_is_the_same_to_the_last_bit_with_evaluation_and_samples(
    sections: dict[str, Any], tmp_path: Path
) -> None:
    """Dropout is on, so a random number more or less would show."""
    folder = write_dropout_model(tmp_path)
    runs: list[tuple[list[float], dict[str, torch.Tensor]]] = []
    for disturbed in (False, True):
        losses: list[float] = []

        def on_step(step: int, engine: Engine, disturbed: bool = disturbed, losses: list[float] = losses) -> None:
            losses.append(engine.last_metrics["train/loss"])
            if disturbed and step % 2:
                engine.evaluate(HELD_OUT)
                engine.generate([[1, 2, 3]], Sampling(max_new_tokens=3, temperature=1.0))

        with running(folder, training={"micro_batch_size": 2}, **sections) as engine:
            engine.train(SOURCE, 5, lambda: False, lambda step, engine=engine: on_step(step, engine))
            runs.append((losses, weights_of(engine)))
    (plain_losses, plain), (losses, disturbed_weights) = runs
    assert losses == plain_losses
    assert all(torch.equal(disturbed_weights[name], plain[name]) for name in plain)


def test_evaluation_without_dropout_of_the_batch_that_is_trained_next_is_its_loss(tmp_path: Path) -> None:
    """No gradient, another schedule, the same arithmetic: equal to the last bit."""
    with running(write_checkpoint("llama", tmp_path), offload=TIGHT) as engine:
        train(engine, SOURCE, 2)
        before = engine.evaluate([SOURCE.batch(3)]).loss
        (third,) = train(engine, SOURCE, 3)
        assert third["train/loss"] == before


def test_evaluation_of_nothing_trained_is_refused(tmp_path: Path) -> None:
    batch = HELD_OUT[0]
    empty = replace(batch, labels=np.full_like(batch.labels, IGNORE))
    with running(write_checkpoint("llama", tmp_path)) as engine, pytest.raises(BadBatch, match="no trained token"):
        engine.evaluate([empty])
