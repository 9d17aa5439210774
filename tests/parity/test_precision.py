"""Number formats in the whole engine: float16 and its loss scale, layers kept in fp32, averaged gradients."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from horizon_app.engine.errors import LossScaleExhausted, UnsupportedModel
from horizon_app.engine.memory.planes import PlaneName
from horizon_app.engine.model.block_linear import BlockLinear
from horizon_app.engine.training.engine import Engine
from tests.support.engines import NotingSink, running, spoil, train, weights_of
from tests.support.plain_loop import train_plainly
from tests.support.tiny_models import CONFIGS, RandomBatches, write_checkpoint

SOURCE = RandomBatches()
STEPS = 6
OFFLOAD = {"param_block_size": "16KiB", "max_gpu_blocks": 5}
FIRST_SCALE = 2.0**16


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("llama", tmp_path_factory.mktemp("llama"))


def fp16(**more: Any) -> dict[str, Any]:
    return {"compute": "fp16", **more}


def overflow(engine: Engine, at: set[int]) -> list[int]:
    """Let the gradient of the first layer be infinite at these backward passes, counted from 1; answers their count."""
    model, passes = engine._m.step._p.model, [0]
    real = model.layer

    def layer(index: int, *arguments: Any) -> torch.Tensor:
        output = real(index, *arguments)
        if index == 0 and output.requires_grad:
            output.register_hook(spoiled)
        return output

    def spoiled(gradient: torch.Tensor) -> torch.Tensor:
        passes[0] += 1
        return gradient * float("inf") if passes[0] in at else gradient

    model.layer = layer  # type: ignore[method-assign]
    return passes


def of_steps(metrics: list[dict[str, float]], name: str) -> list[float]:
    return [step[name] for step in metrics]


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("disk", ["off", "on"])
@pytest.mark.parametrize(
    ("spoiled", "scales", "skipped"),
    [
        (1, [FIRST_SCALE / 4] * STEPS, [0] * STEPS),  # until a step has succeeded, the scale is searched for
        (3, [FIRST_SCALE] * 2 + [FIRST_SCALE / 2] * (STEPS - 2), [0] * 2 + [1] * (STEPS - 2)),
    ],
)
def test_engine_fp16_overflow_repeats_the_step_and_nothing_but_the_scale_moves(
    spoiled: int, scales: list[float], skipped: list[int], disk: str, threads: int, llama: Path, tmp_path: Path
) -> None:
    with running(llama, offload=OFFLOAD, precision=fp16()) as engine:
        expected, weights = train(engine, SOURCE, STEPS), weights_of(engine)
    sink = NotingSink()
    with running(
        llama, sink=sink, disk_dir=tmp_path, overrides={"update_threads": threads}, offload={**OFFLOAD, "disk": disk},
        precision=fp16(),
    ) as engine:  # fmt: skip
        passes = overflow(engine, {spoiled})
        metrics = train(engine, SOURCE, STEPS)
        assert passes == [STEPS + 1]
        for name, weight in weights_of(engine).items():
            torch.testing.assert_close(weight, weights[name], rtol=1e-5, atol=1e-6, msg=name)
    for name in ("train/learning_rate", "train/tokens"):
        assert of_steps(metrics, name) == of_steps(expected, name), name
    for name in ("train/loss", "train/grad_norm"):
        assert of_steps(metrics, name) == pytest.approx(of_steps(expected, name), rel=1e-4), name
    assert of_steps(metrics, "train/loss_scale") == scales
    assert of_steps(metrics, "train/skipped_steps") == skipped
    assert sink.data_of("skipped") == [{"step": spoiled, "loss_scale": scales[-1], "skipped": skipped[-1]}]
    assert f"{scales[-1]:g}" in sink.notes[0][1] and f"step {spoiled}" in sink.notes[0][1]


def test_engine_fp16_overflow_in_the_middle_leaves_the_moments_as_they_were(llama: Path) -> None:
    with running(llama, offload=OFFLOAD, precision=fp16()) as engine:
        train(engine, SOURCE, 2)
        before = moments_of(engine)
        weights = weights_of(engine)
        overflow(engine, {1})
        asked = iter([False, True])  # after the attempt that overflowed, the run is asked to stop
        assert engine.train(SOURCE, 4, lambda: next(asked), lambda _: None) == 2
        assert all(torch.equal(moment, before[name]) for name, moment in moments_of(engine).items())
        assert all(torch.equal(weight, weights[name]) for name, weight in weights_of(engine).items())


def moments_of(engine: Engine) -> dict[str, torch.Tensor]:
    names = (PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ)
    return {f"{p.name} {n}": engine._pool.read(p, n) for p in engine._partition.parameters for n in names}


def test_engine_fp16_dropout_of_an_attempt_that_is_repeated_is_drawn_again(tmp_path: Path) -> None:
    config = CONFIGS["gpt2"]()
    config.resid_pdrop = config.attn_pdrop = config.embd_pdrop = 0.2
    folder = write_checkpoint("gpt2", tmp_path)
    config.save_pretrained(folder)

    def losses(spoiled: set[int]) -> list[float]:
        with running(folder, offload=OFFLOAD, precision=fp16()) as engine:
            overflow(engine, spoiled)
            return of_steps(train(engine, SOURCE, 3), "train/loss")

    assert losses({1}) == pytest.approx(losses(set()), rel=1e-3), "other draws change losses by percents"


def test_engine_fp16_fixed_scale_that_overflows_ends_the_run_and_updates_nothing(llama: Path) -> None:
    with running(llama, offload=OFFLOAD, precision=fp16(loss_scale=1024)) as engine:
        before = weights_of(engine)
        overflow(engine, {1})
        with pytest.raises(LossScaleExhausted, match="1024") as failure:
            train(engine, SOURCE, 2)
        assert (failure.value.step, failure.value.stage, engine.step_count) == (1, "L0", 0)
        assert all(torch.equal(weight, before[name]) for name, weight in weights_of(engine).items())


def test_engine_fp16_loss_that_is_not_finite_names_the_sequences_and_is_not_tried_again(llama: Path) -> None:
    with running(llama, offload=OFFLOAD, precision=fp16()) as engine:
        spoil(engine, "model.embed_tokens.weight", int(SOURCE.batch(1).input_ids[2, 5]), 0)
        passes = overflow(engine, set())
        with pytest.raises(LossScaleExhausted, match="sequence") as failure:
            train(engine, SOURCE, 1)
        assert "sequence 3 of the batch" in str(failure.value)
        assert passes == [1]


def test_engine_fp16_losses_stay_close_to_fp32(llama: Path) -> None:
    plain = train_plainly(llama, SOURCE, steps=STEPS, micro_batch=2, peak=1e-3, warmup=3, weight_decay=0.1)
    with running(llama, offload=OFFLOAD, precision=fp16(), training={"micro_batch_size": 2}) as engine:
        losses = of_steps(train(engine, SOURCE, STEPS), "train/loss")
    assert losses == pytest.approx(plain.losses, rel=0.01)
    assert losses != pytest.approx(plain.losses, rel=1e-6), "it did compute in fp16"


def head_error(folder: Path, keep: list[str], compute: str) -> tuple[torch.dtype, float]:
    """The dtype of the logits, and how far they are from the exact product of the same weights."""
    with running(folder, offload=OFFLOAD, precision={"compute": compute, "keep_fp32": keep}) as engine:
        model, seen = engine._m.step._p.model, list[tuple[torch.Tensor, torch.Tensor]]()
        real = model.logits

        def logits(hidden: torch.Tensor) -> torch.Tensor:
            answer = real(hidden)
            seen.append((hidden.detach().clone(), answer.detach().clone()))
            return answer

        model.logits = logits  # type: ignore[method-assign]
        weight = engine._pool.read(engine._partition.by_name["lm_head.weight"], PlaneName.WEIGHT)
        train(engine, SOURCE, 1)
        hidden, answer = seen[0]
        exact = F.linear(hidden.double(), weight.double())
        return answer.dtype, float((answer.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("compute", ["bf16", "fp16"])
def test_engine_head_kept_in_fp32_multiplies_exactly(compute: str, llama: Path) -> None:
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}[compute]
    dtype, error = head_error(llama, ["norm", "lm_head"], compute)
    assert dtype is torch.float32
    assert error < 1e-6
    dtype, error = head_error(llama, ["norm"], compute)
    assert dtype is half
    assert error > 1e-5


def layer_output(folder: Path, precision: Mapping[str, Any]) -> torch.Tensor:
    """What the first layer answers to the first micro-batch."""
    with running(folder, offload=OFFLOAD, precision=precision, training={"micro_batch_size": 4}) as engine:
        model, outputs = engine._m.step._p.model, list[torch.Tensor]()
        real = model.layer

        def layer(index: int, *arguments: Any) -> torch.Tensor:
            output = real(index, *arguments)
            outputs.append(output.detach().clone())
            return output

        model.layer = layer  # type: ignore[method-assign]
        train(engine, SOURCE, 1)
    return outputs[0]


def test_engine_layers_kept_in_fp32_multiply_in_it_and_hand_on_the_compute_dtype(llama: Path) -> None:
    precision = {"compute": "bf16", "keep_fp32": ["norm", "down_proj", "0.self_attn.q_proj"]}
    with running(llama, offload=OFFLOAD, precision=precision) as engine:
        products = {
            f"{index}.{name}": module.dtype
            for index, layer in enumerate(engine._m.step._p.model.layers)
            for name, module in layer.named_modules()
            if isinstance(module, BlockLinear)
        }
    kept = {name for name, dtype in products.items() if dtype is torch.float32}
    assert kept == {"0.mlp.down_proj", "1.mlp.down_proj", "0.self_attn.q_proj"}
    assert {dtype for name, dtype in products.items() if name not in kept} == {torch.bfloat16}
    exact, some = layer_output(llama, {"compute": "fp32"}), layer_output(llama, precision)
    assert some.dtype is torch.bfloat16
    assert float((some.float() - exact).norm() / exact.norm()) < 0.01


def test_engine_keep_fp32_where_all_is_fp32_changes_no_bit(llama: Path) -> None:
    kept = layer_output(llama, {"compute": "fp32", "keep_fp32": ["norm", "proj"]})
    assert torch.equal(kept, layer_output(llama, {"compute": "fp32"}))


def test_engine_keep_fp32_word_that_no_layer_has_is_refused_with_names_it_could_be(llama: Path) -> None:
    precision = {"compute": "bf16", "keep_fp32": ["norm", "router"]}
    with pytest.raises(UnsupportedModel, match=r"router.*down_proj"), running(llama, precision=precision):
        pass


@pytest.mark.parametrize("paged", [False, True], ids=["ram", "paged"])
@pytest.mark.parametrize("family", list(CONFIGS))
def test_engine_averaged_gradients_equal_the_plain_loop(family: str, paged: bool, tmp_path: Path) -> None:
    folder = write_checkpoint(family, tmp_path / "model")
    plain = train_plainly(
        folder, SOURCE, steps=STEPS, micro_batch=2, peak=1e-3, warmup=3, weight_decay=0.1, gradient_ema=0.9
    )
    training = {"micro_batch_size": 2, "gradient_ema": 0.9}
    offload = {**OFFLOAD, "disk": "on" if paged else "off"}
    with running(folder, disk_dir=tmp_path / "disk", training=training, offload=offload) as engine:
        assert of_steps(train(engine, SOURCE, STEPS), "train/loss") == pytest.approx(plain.losses, rel=1e-5)
        for name, weight in weights_of(engine).items():
            if name in plain.weights and not name.endswith("c_attn.bias"):  # see test_plain_loop on key biases
                expected = plain.weights[name]
                assert float((weight - expected).norm() / expected.norm()) < 1e-5, name


def test_engine_averaged_gradients_are_not_the_gradients(llama: Path) -> None:
    """Momentum of its own: the third step differs, since the first two averages are bias-corrected mixtures."""
    with running(llama, training={"gradient_ema": 0.9}) as engine:
        averaged = of_steps(train(engine, SOURCE, 3), "train/loss")
    with running(llama) as engine:
        plain = of_steps(train(engine, SOURCE, 3), "train/loss")
    assert averaged[:2] == pytest.approx(plain[:2], rel=1e-7), "a first average is its gradient"
    assert averaged[2] != pytest.approx(plain[2], rel=1e-6)
