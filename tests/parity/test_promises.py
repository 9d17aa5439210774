"""Promises beyond equal losses in fp32: bounded, precise enough in bf16, deterministic with dropout, safe with NaN."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from horizon_app.data.batches import IGNORE, Batch
from horizon_app.engine.errors import BadBatch, NonFiniteGradient
from horizon_app.engine.memory.planes import Opening, PlaneName
from horizon_app.engine.training.engine import Engine
from tests.support.engines import running, spoil, train, weights_of
from tests.support.plain_loop import learning_rate, train_plainly
from tests.support.tiny_models import CONFIGS, VOCABULARY, RandomBatches, write_checkpoint

PEAK, WARMUP, DECAY = 1e-3, 3, 0.1
SOURCE = RandomBatches()
MOST_BLOCKS = 50


def plainly(folder: Path, steps: int, source: RandomBatches = SOURCE, **more: Any) -> list[float]:
    return train_plainly(
        folder, source, steps=steps, micro_batch=source.sequences, peak=PEAK, warmup=WARMUP, weight_decay=DECAY, **more
    ).losses


def losses_of(metrics: list[dict[str, float]]) -> list[float]:
    return [step["train/loss"] for step in metrics]


def moments_of(engine: Engine) -> dict[str, torch.Tensor]:
    return {p.name: engine._pool.read(p, PlaneName.EXP_AVG) for p in engine._partition.parameters}


def write_model(config: Any, folder: Path) -> Path:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("llama", tmp_path_factory.mktemp("llama"))


def test_engine_layer_of_120_blocks_trains_in_an_arena_of_50(tmp_path: Path) -> None:
    wide = LlamaConfig(
        hidden_size=128, intermediate_size=480, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        vocab_size=VOCABULARY, max_position_embeddings=64, tie_word_embeddings=False,
    )  # fmt: skip
    folder = write_model(wide, tmp_path)
    offload = {"param_block_size": "8KiB", "max_gpu_blocks": MOST_BLOCKS}
    with running(folder, offload=offload) as engine:
        layers = [stage for stage in engine.layout().stages if stage.name.startswith("L")]
        assert all(stage.num_blocks >= 120 for stage in layers)
        losses = losses_of(train(engine, SOURCE, 8))
        peaks = engine.peaks()
        assert peaks.device_blocks <= MOST_BLOCKS
        assert peaks.device_bytes <= MOST_BLOCKS * (8 << 10)
        assert peaks.host_bytes == engine.plan_facts["host_bytes"]
    assert losses == pytest.approx(plainly(folder, 8), rel=1e-5)


HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.mark.parametrize("compute", list(HALVES))
@pytest.mark.parametrize("family", list(CONFIGS))
def test_engine_16_bit_losses_stay_within_two_percent_of_autocast(family: str, compute: str, tmp_path: Path) -> None:
    folder = write_checkpoint(family, tmp_path)
    steps = 50
    offload = {"param_block_size": "16KiB", "max_gpu_blocks": 5}
    with running(folder, offload=offload, precision={"compute": compute}) as engine:
        losses = losses_of(train(engine, SOURCE, steps))
    plain = plainly(folder, steps, dtype=HALVES[compute])
    assert losses == pytest.approx(plain, rel=0.02)
    assert losses != pytest.approx(plainly(folder, steps), rel=1e-6), "it did compute in 16 bits"


def test_engine_gradient_norm_and_learning_rate_equal_the_plain_loop(llama: Path) -> None:
    plain = train_plainly(llama, SOURCE, steps=6, micro_batch=2, peak=PEAK, warmup=WARMUP, weight_decay=DECAY)
    with running(llama, training={"micro_batch_size": 2}) as engine:
        metrics = train(engine, SOURCE, 6)
    assert [step["train/grad_norm"] for step in metrics] == pytest.approx(plain.norms, rel=1e-5)
    rates = [learning_rate(step, 6, PEAK, WARMUP) for step in range(1, 7)]
    assert [step["train/learning_rate"] for step in metrics] == pytest.approx(rates, rel=1e-6)
    assert [step["train/tokens"] for step in metrics] == [
        sum(SOURCE.batch(s).num_trained_tokens for s in range(1, n + 1)) for n in range(1, 7)
    ]


DROPOUT = GPT2Config(
    n_embd=64, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=64, resid_pdrop=0.2, embd_pdrop=0.1,
    attn_pdrop=0.15,
)  # fmt: skip


@pytest.fixture(scope="module")
def dropout_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(DROPOUT, tmp_path_factory.mktemp("dropout"))


def run_with_dropout(
    folder: Path, recompute: str, seed: int, chaos: int, micro_batch: int = 2
) -> tuple[list[float], dict[str, torch.Tensor]]:
    sections: dict[str, Any] = {
        "offload": {"param_block_size": "32KiB", "max_gpu_blocks": 4 + chaos, "prefetch_window": chaos},
        "training": {"micro_batch_size": micro_batch, "seed": seed},
        "compute": {"recompute": recompute},
    }
    with running(folder, seed=chaos, **sections) as engine:
        losses = losses_of(train(engine, SOURCE, 4))
        return losses, weights_of(engine)


def assert_same(a: tuple[list[float], dict[str, torch.Tensor]], b: tuple[list[float], dict[str, torch.Tensor]]) -> None:
    assert a[0] == b[0]
    assert all(torch.equal(a[1][name], b[1][name]) for name in a[1])


def test_engine_dropout_is_replayed_in_recomputation_to_the_last_bit(dropout_model: Path) -> None:
    always = run_with_dropout(dropout_model, "always", seed=5, chaos=0)
    never = run_with_dropout(dropout_model, "never", seed=5, chaos=3)
    assert_same(always, never)


@pytest.mark.parametrize("recompute", ["always", "never"])
def test_engine_dropout_same_seed_twice_gives_the_same_bits_and_another_seed_does_not(
    dropout_model: Path, recompute: str
) -> None:
    first = run_with_dropout(dropout_model, recompute, seed=5, chaos=0)
    torch.manual_seed(999)
    assert_same(first, run_with_dropout(dropout_model, recompute, seed=5, chaos=1))
    assert run_with_dropout(dropout_model, recompute, seed=6, chaos=0)[0] != first[0]


@pytest.fixture(params=["fp32", "bf16"])
def compute(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def test_engine_loss_that_is_not_finite_names_the_stage_and_updates_nothing(llama: Path, compute: str) -> None:
    """NaN in the head alone: gradients of the head and of all below it are NaN, and nothing is applied."""
    with running(llama, precision={"compute": compute}, offload={"max_gpu_blocks": 4}) as engine:
        train(engine, SOURCE, 1)
        spoil(engine, "lm_head.weight", 7, 3)
        before, moments = weights_of(engine), moments_of(engine)
        with pytest.raises(NonFiniteGradient) as failure:
            train(engine, SOURCE, 2)
        assert failure.value.step == 2
        assert failure.value.stage in {"embed", "L0", "L1", "head"}
        assert failure.value.stage in str(failure.value)
        assert not np.isfinite(failure.value.loss)
        assert engine.step_count == 1
        for name, weight in weights_of(engine).items():
            torch.testing.assert_close(weight, before[name], rtol=0, atol=0, equal_nan=True)
        assert all(torch.equal(moment, moments[name]) for name, moment in moments_of(engine).items())


def test_engine_gradient_that_overflows_in_one_layer_alone_names_that_layer(llama: Path) -> None:
    with running(llama) as engine:
        gather = engine._m.gather
        real = gather.norm_when_gathered
        block = engine._partition.stage_blocks[2][0]

        def overflow() -> None:
            with engine._pool.block(PlaneName.GRAD, block).opened(Opening.CHANGE) as gradient:
                gradient[0] = float("inf")

        def norm_when_gathered(stage: int) -> None:
            if stage == 2:
                engine._loaded.backend.after_gathers(overflow)
            real(stage)

        gather.norm_when_gathered = norm_when_gathered
        before = weights_of(engine)
        with pytest.raises(NonFiniteGradient) as failure:
            train(engine, SOURCE, 1)
        assert failure.value.stage == "L1"
        assert np.isfinite(failure.value.loss)
        assert all(torch.equal(weight, before[name]) for name, weight in weights_of(engine).items())
        gather.norm_when_gathered = real
        assert losses_of(train(engine, SOURCE, 3)) == pytest.approx(plainly(llama, 3), rel=1e-5), "it can go on"


@pytest.mark.parametrize("family", ["llama", "qwen3"], ids=["untied", "tied"])
def test_engine_gradient_that_turns_bad_on_the_way_down_names_where_it_began(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(write_checkpoint(family, tmp_path)) as engine:
        model = engine._m.step._p.model
        real = model.layer

        def layer(index: int, *arguments: Any) -> torch.Tensor:
            output = real(index, *arguments)
            if index == 1 and output.requires_grad:
                output.register_hook(lambda gradient: gradient * float("nan"))  # L1 and all below it
            return output

        monkeypatch.setattr(model, "layer", layer)
        with pytest.raises(NonFiniteGradient) as failure:
            train(engine, SOURCE, 1)
        assert failure.value.stage == "L1"


class OneBatch(RandomBatches):
    """The same batch for ever."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        object.__setattr__(self, "only", batch)

    def batch(self, step: int) -> Batch:
        return self.only  # type: ignore[attr-defined]


def test_engine_batch_with_nothing_to_train_is_refused(llama: Path) -> None:
    good = SOURCE.batch(1)
    nothing = Batch(
        input_ids=good.input_ids, labels=np.full_like(good.labels, IGNORE), position_ids=good.position_ids,
        num_samples=good.num_samples,
    )  # fmt: skip
    with running(llama) as engine, pytest.raises(BadBatch, match="optimizer step 1"):
        train(engine, OneBatch(nothing), 1)


def test_engine_token_outside_of_the_embedding_is_refused_with_both_numbers(llama: Path) -> None:
    good = SOURCE.batch(1)
    ids = good.input_ids.copy()
    ids[1, 4] = VOCABULARY
    bad = Batch(input_ids=ids, labels=good.labels, position_ids=good.position_ids, num_samples=good.num_samples)
    with running(llama) as engine, pytest.raises(BadBatch, match=rf"{VOCABULARY} rows.*row {VOCABULARY}"):
        train(engine, OneBatch(bad), 1)


def test_engine_micro_batch_without_a_trained_token_adds_nothing(llama: Path) -> None:
    """One of two micro-batches has no label: its gradient is zero, and the loss is that of the other."""
    good = SOURCE.batch(3)
    labels = good.labels.copy()
    labels[:2] = IGNORE
    batch = Batch(input_ids=good.input_ids, labels=labels, position_ids=good.position_ids, num_samples=8)
    plain = train_plainly(
        llama, OneBatch(batch), steps=3, micro_batch=4, peak=PEAK, warmup=WARMUP, weight_decay=DECAY
    ).losses  # fmt: skip
    with running(llama, training={"micro_batch_size": 2}) as engine:
        assert losses_of(train(engine, OneBatch(batch), 3)) == pytest.approx(plain, rel=1e-5)


def test_engine_stops_when_asked_and_goes_on_from_there(llama: Path) -> None:
    with running(llama) as engine:
        whole = losses_of(train(engine, SOURCE, 5))
    with running(llama) as engine:
        losses: list[float] = []
        note = lambda _: losses.append(engine.last_metrics["train/loss"])  # noqa: E731
        assert engine.train(SOURCE, 5, lambda: len(losses) == 2, note) == 2
        assert engine.train(SOURCE, 5, lambda: False, note) == 5
    assert losses == whole
