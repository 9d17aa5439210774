"""A real model, SmolLM2-135M, for three steps against the plain loop. Downloads and converts it once."""

import pytest

from tests.support.engines import running, train
from tests.support.plain_loop import train_plainly
from tests.support.smollm2 import smollm2_folder
from tests.support.tiny_models import RandomBatches

SOURCE = RandomBatches(sequences=2, tokens=64, vocabulary=40_000)
STEPS = 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_engine_smollm2_three_steps_equal_the_plain_loop() -> None:
    folder = smollm2_folder()
    plain = train_plainly(folder, SOURCE, steps=STEPS, micro_batch=2, peak=1e-5, warmup=1, weight_decay=0.1)
    with running(
        folder,
        data={"sequence_length": SOURCE.tokens},
        offload={"param_block_size": "1MiB", "max_gpu_blocks": 12},
        training={
            "global_batch_size": SOURCE.sequences, "micro_batch_size": 2, "learning_rate": 1e-5, "warmup_steps": 1,
        },
    ) as engine:  # fmt: skip
        losses = [step["train/loss"] for step in train(engine, SOURCE, STEPS)]
        assert engine.peaks().device_blocks <= 12
    assert losses == pytest.approx(plain.losses, rel=1e-5)
