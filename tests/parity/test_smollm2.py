"""A real model, SmolLM2-135M, for three steps against the plain loop. Needs the converted checkpoint; takes minutes."""

import os
from pathlib import Path

import pytest

from tests.support.engines import running, train
from tests.support.plain_loop import train_plainly
from tests.support.tiny_models import RandomBatches

CACHE = Path(__file__).parents[2] / ".cache" / "smollm2" / "model"
# Read at import: the home fixture clears every HORIZON_ variable before a test runs.
FOLDER = Path(os.environ.get("HORIZON_SMOLLM2") or CACHE)
SOURCE = RandomBatches(sequences=2, tokens=64, vocabulary=40_000)
STEPS = 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_engine_smollm2_three_steps_equal_the_plain_loop() -> None:
    if not (FOLDER / "config.json").is_file():
        pytest.fail(
            "SmolLM2-135M is not there: set HORIZON_SMOLLM2 to its folder (config.json and safetensors), or put it "
            f"into {CACHE.relative_to(Path(__file__).parents[2])}"
        )
    plain = train_plainly(FOLDER, SOURCE, steps=STEPS, micro_batch=2, peak=1e-5, warmup=1, weight_decay=0.1)
    with running(
        FOLDER,
        data={"sequence_length": SOURCE.tokens},
        offload={"param_block_size": "1MiB", "max_gpu_blocks": 12},
        training={
            "global_batch_size": SOURCE.sequences, "micro_batch_size": 2, "learning_rate": 1e-5, "warmup_steps": 1,
        },
    ) as engine:  # fmt: skip
        losses = [step["train/loss"] for step in train(engine, SOURCE, STEPS)]
        assert engine.peaks().device_blocks <= 12
    assert losses == pytest.approx(plain.losses, rel=1e-5)
