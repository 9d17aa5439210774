"""Device memory that runs short: smaller micro-batches, the same sequences, the same losses."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config

from horizon_app.data.batches import Batch
from horizon_app.engine.errors import OutOfDeviceMemory
from horizon_app.engine.training.engine import Engine
from horizon_app.engine.training.step import StepResult
from tests.support.engines import NotingSink, running, train, weights_of
from tests.support.plain_loop import PlainResult, train_plainly
from tests.support.tiny_models import VOCABULARY, RandomBatches, write_checkpoint

SOURCE = RandomBatches()
STEPS = 5
OFFLOAD = {"param_block_size": "16KiB", "max_gpu_blocks": 5}
ERRORS: dict[str, Callable[[], Exception]] = {
    "card": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "cpu": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    "python": lambda: MemoryError(),
}


def plainly(folder: Path, source: RandomBatches = SOURCE, micro_batch: int = 4) -> PlainResult:
    return train_plainly(
        folder, source, steps=STEPS, micro_batch=micro_batch, peak=1e-3, warmup=3, weight_decay=0.1
    )  # fmt: skip


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def plain(llama: Path) -> PlainResult:
    return plainly(llama)


class Shortage:
    """Memory runs out in the second layer at the calls of these numbers, counted from 1; upwards or downwards."""

    def __init__(self, engine: Engine, at: set[int], error: Callable[[], Exception], *, downwards: bool = False):
        self._model, self._at, self._error, self._downwards = engine._m.step._p.model, at, error, downwards
        self._real, self.calls = self._model.layer, 0
        self._model.layer = self._layer  # type: ignore[method-assign]

    def _layer(self, index: int, *arguments: Any) -> torch.Tensor:
        output = self._real(index, *arguments)
        if index != 1 or (self._downwards and not output.requires_grad):
            return output
        if self._downwards:
            output.register_hook(lambda _: self._call())
        else:
            self._call()
        return output

    def _call(self) -> None:
        self.calls += 1
        if self.calls in self._at:
            raise self._error()


def assert_close(losses: list[float], engine: Engine, plain: PlainResult) -> None:
    assert losses == pytest.approx(plain.losses, rel=1e-5)
    for name, weight in weights_of(engine).items():
        assert float((weight - plain.weights[name]).norm() / plain.weights[name].norm()) < 1e-5, name


def micro_batches(sink: NotingSink) -> list[tuple[int, int, int, int]]:
    return [(d["step"], d["old"], d["new"], d["steps"]) for d in sink.data_of("micro_batch")]


@pytest.mark.parametrize("error", list(ERRORS))
@pytest.mark.parametrize("downwards", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("recompute", ["always", "never"])
@pytest.mark.parametrize("arena", [5, "auto"], ids=["copied", "shared"])
def test_engine_out_of_memory_once_halves_the_micro_batch_and_does_the_step_again(
    arena: int | str, recompute: str, downwards: bool, error: str, llama: Path, plain: PlainResult
) -> None:
    sink = NotingSink()
    offload = {**OFFLOAD, "max_gpu_blocks": arena}
    with running(llama, sink=sink, offload=offload, compute={"recompute": recompute}) as engine:
        Shortage(engine, {3}, ERRORS[error], downwards=downwards)
        metrics = train(engine, SOURCE, STEPS)
        assert_close([step["train/loss"] for step in metrics], engine, plain)
        assert engine._m.arena.num_used == 0, "nothing is left of the step that was given up"
    [(step, old, new, steps)] = micro_batches(sink)
    assert (old, new, steps) == (4, 2, 2)
    assert step == (2 if recompute == "always" and not downwards else 3), "layers run twice where they are recomputed"
    assert [m["accumulation/micro_batch_size"] for m in metrics] == [4.0] * (step - 1) + [2.0] * (STEPS - step + 1)
    [(_, message, data)] = [note for note in sink.notes if note[0] == "micro_batch"]
    assert "memory ran out" in message and data["reason"] in message


@pytest.mark.parametrize("kept", [1, 2])
def test_engine_out_of_memory_recomputes_every_layer_before_it_halves_the_micro_batch(
    kept: int, llama: Path, plain: PlainResult
) -> None:
    sink = NotingSink()
    overrides = {"kept_layers": kept}
    with running(
        llama, sink=sink, overrides=overrides, offload=OFFLOAD, compute={"recompute": "auto"}
    ) as engine:  # fmt: skip
        Shortage(engine, {3, 5}, ERRORS["card"])
        before = engine.sizes.free_share(2)
        metrics = train(engine, SOURCE, STEPS)
        assert engine.plan_facts["layers_recomputed"] == 2
        assert engine.sizes.free_share(2) > before, "accumulation goes by what is kept now"
        assert_close([step["train/loss"] for step in metrics], engine, plain)
    kinds = [(kind, data["step"]) for kind, _, data in sink.notes if kind in ("recompute", "micro_batch")]
    assert kinds == [("recompute", 3), ("micro_batch", 3)], "its first call downwards is number 5"
    [(_, message, _)] = [note for note in sink.notes if note[0] == "recompute"]
    assert "memory ran out" in message and "optimizer step 3" in message


@pytest.mark.parametrize("inputs", ["device", "host", "disk"])
@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("order", ["layer_major", "micro_batch_major"])
def test_engine_out_of_memory_twice_in_a_step_quarters_the_micro_batch(
    order: str, threads: int, inputs: str, llama: Path, plain: PlainResult, tmp_path: Path
) -> None:
    """Layer inputs that were put away, updates under way, pages on disk: nothing of the lost attempts is taken up."""
    sink = NotingSink()
    overrides = {
        "update_threads": threads, "host_inputs": inputs != "device",
        "input_limit_bytes": 0 if inputs == "disk" else None,
    }  # fmt: skip
    with running(
        llama, sink=sink, disk_dir=tmp_path, overrides=overrides, offload={**OFFLOAD, "disk": "on"},
        compute={"recompute": "always", "schedule": order},
    ) as engine:  # fmt: skip
        Shortage(engine, {2, 4}, ERRORS["card"], downwards=True)
        losses = [step["train/loss"] for step in train(engine, SOURCE, STEPS)]
        assert_close(losses, engine, plain)
    assert micro_batches(sink) == [(2, 4, 2, 2), (2, 2, 1, 4)]


@pytest.mark.parametrize("training", [{"micro_batch_size": 2}, {"global_batch_size": 1}])
def test_engine_out_of_memory_where_the_micro_batch_may_not_shrink_ends_the_run_with_the_numbers(
    training: dict[str, int], llama: Path
) -> None:
    source = RandomBatches(sequences=training.get("global_batch_size", 4))
    sink = NotingSink()
    with running(llama, sink=sink, offload=OFFLOAD, training=training, compute={"recompute": "never"}) as engine:
        train(engine, source, 1)
        before = weights_of(engine)
        Shortage(engine, {1}, ERRORS["card"])
        with pytest.raises(OutOfDeviceMemory) as failure:
            train(engine, source, STEPS)
        assert failure.value.micro_batch == training.get("micro_batch_size", 1)
        assert failure.value.sequences == source.sequences
        assert engine.step_count == 1
        assert all(torch.equal(weight, before[name]) for name, weight in weights_of(engine).items())
    assert micro_batches(sink) == []


def test_engine_failure_that_is_no_lack_of_memory_is_not_tried_again(llama: Path) -> None:
    with running(llama, offload=OFFLOAD) as engine:
        shortage = Shortage(engine, {1}, lambda: RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            train(engine, SOURCE, 1)
        assert shortage.calls == 1


def test_engine_adaptive_accumulation_follows_the_free_share_at_the_borders_of_steps(
    llama: Path, plain: PlainResult
) -> None:
    sink = NotingSink()
    shares = iter([0.10, 0.30, 0.15, 0.19, 0.90])
    with running(llama, sink=sink, offload=OFFLOAD) as engine:
        engine._free_share = lambda micro_batch: next(shares)
        metrics = train(engine, SOURCE, STEPS)
        assert_close([step["train/loss"] for step in metrics], engine, plain)
    assert [m["accumulation/micro_batch_size"] for m in metrics] == [4, 2, 2, 1, 1]
    assert [m["accumulation/steps"] for m in metrics] == [1, 2, 2, 4, 4]
    assert micro_batches(sink) == [(2, 4, 2, 2), (4, 2, 1, 4)], "what left too little memory is not tried again"
    assert "10% of the device's memory was free" in sink.notes[0][1]


def test_engine_fixed_accumulation_stays_whatever_is_free(llama: Path) -> None:
    sink = NotingSink()
    with running(llama, sink=sink, offload=OFFLOAD, accumulation={"policy": "fixed"}) as engine:
        engine._free_share = lambda micro_batch: 0.01
        metrics = train(engine, SOURCE, 3)
    assert {m["accumulation/micro_batch_size"] for m in metrics} == {4}
    assert sink.notes == []


class Regrouped(RandomBatches):
    """The sequences of all batches in their order, so many of them a step."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        object.__setattr__(self, "sizes", sizes)

    def batch(self, step: int) -> Batch:
        sizes: list[int] = self.sizes  # type: ignore[attr-defined]
        first = sum(sizes[: step - 1])
        rows = [super(Regrouped, self).batch(1 + i // 4) for i in range(first, first + sizes[step - 1])]
        picked = [(batch, (first + i) % 4) for i, batch in enumerate(rows)]

        def column(name: str) -> Any:
            return np.stack([getattr(batch, name)[row] for batch, row in picked])

        return Batch(
            input_ids=column("input_ids"), labels=column("labels"), position_ids=column("position_ids"), num_samples=1
        )


def test_engine_adaptive_accumulation_without_a_kept_batch_changes_the_sequences_of_a_step(llama: Path) -> None:
    """More micro-batches mean more sequences; the source's are handed out in their order, none twice, none lost."""
    shares = iter([0.10, 0.10, 0.30, 0.90, 0.30])
    accumulation = {"policy": "adaptive", "keep_global_batch": False}
    with running(llama, offload=OFFLOAD, training={"micro_batch_size": 2}, accumulation=accumulation) as engine:
        engine._free_share = lambda micro_batch: next(shares)
        metrics = train(engine, SOURCE, STEPS)
        assert [m["accumulation/steps"] for m in metrics] == [2, 3, 5, 5, 4]
        assert {m["accumulation/micro_batch_size"] for m in metrics} == {2}
        assert_close([m["train/loss"] for m in metrics], engine, plainly(llama, Regrouped([4, 6, 10, 10, 8]), 2))


class Ending(RandomBatches):
    """Two batches, and no more."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        return (self.batch(step) for step in range(first_step, 3))


def test_engine_source_that_ends_ends_the_run(llama: Path) -> None:
    with running(llama, offload=OFFLOAD) as engine:
        assert engine.train(Ending(), 5, lambda: False, lambda _: None) == 2


def test_engine_out_of_memory_leaves_the_random_state_as_if_nothing_was_drawn(tmp_path: Path) -> None:
    config = GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=64, resid_pdrop=0.2)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(tmp_path)
    begun: list[torch.Tensor] = []
    with running(tmp_path, offload=OFFLOAD, compute={"recompute": "always"}) as engine:
        Shortage(engine, {3}, ERRORS["cpu"])
        run = engine._m.step.run

        def noting(*arguments: Any, **options: Any) -> StepResult | None:
            begun.append(torch.get_rng_state())
            return run(*arguments, **options)

        engine._m.step.run = noting  # type: ignore[method-assign]
        train(engine, SOURCE, 2)
    assert len(begun) == 3, "one of two steps was done again"
    assert [torch.equal(before, state) for before, state in pairwise(begun)].count(True) == 1
