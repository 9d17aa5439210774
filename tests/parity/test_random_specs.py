"""Random specs on random tiny models: whatever is legal trains like the plain loop."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, LlamaConfig

from horizon_app.contracts.run_spec import Policy
from tests.support.engines import running, train
from tests.support.plain_loop import train_plainly
from tests.support.tiny_models import VOCABULARY, RandomBatches

PEAK, WARMUP, DECAY, STEPS = 1e-3, 2, 0.1, 4

MODELS = st.fixed_dictionaries(
    {
        "hidden_size": st.sampled_from([32, 48, 64]),
        "intermediate_size": st.integers(3, 24).map(lambda n: 8 * n),
        "num_hidden_layers": st.integers(1, 3),
        "num_attention_heads": st.sampled_from([2, 4]),
        "tie_word_embeddings": st.booleans(),
        "attention_bias": st.booleans(),
    }
)
OFFLOAD = st.fixed_dictionaries(
    {
        "param_block_size": st.integers(64, 1024).map(lambda n: 64 * n),
        "prefetch_window": st.one_of(st.integers(0, 9), st.just("auto")),
        "max_gpu_blocks": st.one_of(st.integers(2, 40), st.just("auto")),
        "policy": st.sampled_from([policy.value for policy in Policy]),
        "disk": st.sampled_from(["auto", "off", "on"]),
    }
)
COMPUTE = st.fixed_dictionaries(
    {
        "recompute": st.sampled_from(["auto", "always", "never"]),
        "schedule": st.sampled_from(["layer_major", "micro_batch_major"]),
    }
)
OVERRIDES = st.fixed_dictionaries(
    {
        "update_threads": st.integers(0, 1),
        "host_inputs": st.booleans(),
        "input_limit_bytes": st.sampled_from([None, 0]),
        "kept_layers": st.sampled_from([None, 0, 1, 2]),
    }
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(model=MODELS, offload=OFFLOAD, compute=COMPUTE, overrides=OVERRIDES, sequences=st.integers(1, 5), data=st.data())
def test_engine_random_spec_equals_the_plain_loop(
    model: dict[str, Any], offload: dict[str, Any], compute: dict[str, Any], overrides: dict[str, Any], sequences: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    source = RandomBatches(sequences=sequences)
    micro = data.draw(st.integers(1, sequences), label="micro-batch")
    with TemporaryDirectory() as name:
        folder = Path(name)
        torch.manual_seed(1)
        config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **model)
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
        plain = train_plainly(
            folder, source, steps=STEPS, micro_batch=micro, peak=PEAK, warmup=WARMUP, weight_decay=DECAY
        )
        words: dict[str, Any] = {
            "training": {
                "global_batch_size": sequences, "micro_batch_size": micro, "learning_rate": PEAK,
                "warmup_steps": WARMUP, "weight_decay": DECAY,
            },
            "offload": offload, "compute": compute,
        }  # fmt: skip
        with running(folder, overrides=overrides, **words) as engine:
            losses = [step["train/loss"] for step in train(engine, source, STEPS)]
            assert offload["max_gpu_blocks"] == "auto" or engine.peaks().device_blocks <= offload["max_gpu_blocks"]
    assert losses == pytest.approx(plain.losses, rel=1e-5)
