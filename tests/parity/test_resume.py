"""A run that goes on from a checkpoint does what an unbroken one does, to the last bit, however its blocks then lie."""

import math
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config

from horizon_app.engine.errors import CheckpointUnusable
from horizon_app.engine.training.checkpoint import Snapshot
from horizon_app.engine.training.engine import Engine
from tests.support.engines import least_host_memory, running, train, weights_of
from tests.support.families import write_family
from tests.support.tiny_models import VOCABULARY, RandomBatches, write_checkpoint

SOURCE = RandomBatches()
TOTAL, BREAK = 5, 2
Sections = dict[str, Any]
BASE: Sections = {"offload": {"param_block_size": "16KiB", "max_gpu_blocks": 6}}

STATES: dict[str, Sections] = {
    "fp32": {},
    "bf16": {"precision": {"compute": "bf16"}},
    "fp16 whose scale moves": {"precision": {"compute": "fp16"}},
    "8-bit moments": {"precision": {"compute": "fp32", "optimizer_state": "int8"}},
    "averaged gradients": {"training": {"gradient_ema": 0.9}},
    "clipped, decayed, linear": {"training": {"max_grad_norm": 0.1, "schedule": "linear", "weight_decay": 0.3}},
    "accumulated": {"training": {"micro_batch_size": 1}},
}
OTHER_PLACES: dict[str, Sections] = {
    "another arena": {"offload": {"max_gpu_blocks": 2}},
    "no arena": {"offload": {"max_gpu_blocks": "auto"}},
    "another policy and window": {"offload": {"policy": "lru", "prefetch_window": 0}},
    "recomputing": {"compute": {"recompute": "always"}},
}


def merged(*parts: Mapping[str, Mapping[str, Any]]) -> Sections:
    """Sections laid over each other, key by key."""
    found: Sections = {}
    for part in parts:
        for name, fields in part.items():
            found[name] = {**found.get(name, {}), **fields}
    base = {"global_batch_size": 4, "learning_rate": 1e-3, "warmup_steps": 3, "weight_decay": 0.1}
    found["training"] = {**base, **found.get("training", {})}
    return found


def losses(engine: Engine, source: Any, steps: int) -> list[float]:
    return [metrics["train/loss"] for metrics in train(engine, source, steps)]


def unbroken(folder: Path, sections: Sections, source: Any = SOURCE) -> tuple[list[float], dict[str, torch.Tensor]]:
    with running(folder, **sections) as engine:
        return losses(engine, source, TOTAL), weights_of(engine)


def broken(
    folder: Path, saved: Path, sections: Sections, then: Sections, source: Any = SOURCE, steps: int = BREAK
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses of a run that is saved after `steps`, ends there, and is gone on with in another engine."""
    saved.mkdir()
    with running(folder, **sections) as engine:
        seen: list[float] = []

        def on_step(step: int) -> None:
            seen.append(engine.last_metrics["train/loss"])
            if step == steps:
                engine.snapshot().write(saved)

        engine.train(source, TOTAL, lambda: len(seen) == steps, on_step)
    with running(saved, **then) as engine:
        assert engine.restore(saved) == steps
        return seen + losses(engine, source, TOTAL), weights_of(engine)


def assert_same_run(
    first: tuple[list[float], dict[str, torch.Tensor]], second: tuple[list[float], dict[str, torch.Tensor]]
) -> None:
    assert second[0] == first[0]
    assert all(torch.equal(weight, first[1][name]) for name, weight in second[1].items())


@pytest.mark.parametrize("state", list(STATES))
def test_resumed_run_has_the_losses_and_weights_of_an_unbroken_one(state: str, tmp_path: Path) -> None:
    folder = write_checkpoint("llama", tmp_path / "model")
    sections = merged(BASE, STATES[state])
    assert_same_run(unbroken(folder, sections), broken(folder, tmp_path / "saved", sections, sections))


@pytest.mark.parametrize("place", list(OTHER_PLACES))
@pytest.mark.parametrize("state", ["fp32", "8-bit moments"])
def test_resumed_run_whose_blocks_lie_elsewhere_is_the_same(place: str, state: str, tmp_path: Path) -> None:
    folder = write_checkpoint("qwen3", tmp_path / "model")
    sections = merged(BASE, STATES[state])
    then = merged(sections, OTHER_PLACES[place])
    assert_same_run(unbroken(folder, sections), broken(folder, tmp_path / "saved", sections, then))


@pytest.mark.parametrize("first_paged", [True, False])
@pytest.mark.parametrize("state", ["fp32", "8-bit moments", "averaged gradients"])
def test_resumed_run_with_other_planes_on_disk_is_the_same(state: str, first_paged: bool, tmp_path: Path) -> None:
    folder = write_checkpoint("llama", tmp_path / "model")
    in_ram = merged(BASE, STATES[state])
    paged = merged(in_ram, {"offload": {"host_memory": least_host_memory(folder, **in_ram)}})
    first, second = (paged, in_ram) if first_paged else (in_ram, paged)
    assert_same_run(unbroken(folder, in_ram), broken(folder, tmp_path / "saved", first, second))


@pytest.mark.parametrize("state", ["fp32", "averaged gradients"])
def test_resumed_run_with_another_block_size_stays_within_rounding(state: str, tmp_path: Path) -> None:
    folder = write_checkpoint("llama", tmp_path / "model")
    sections = merged(BASE, STATES[state])
    then = merged(sections, {"offload": {"param_block_size": "64KiB"}})
    whole = unbroken(folder, sections)
    found = broken(folder, tmp_path / "saved", sections, then)
    assert found[0] == pytest.approx(whole[0], rel=1e-5)
    assert all(torch.allclose(weight, whole[1][name], rtol=1e-4, atol=1e-6) for name, weight in found[1].items())


def test_resumed_run_draws_the_dropout_that_an_unbroken_one_draws(tmp_path: Path) -> None:
    config = GPT2Config(
        n_embd=64, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=64, resid_pdrop=0.2, embd_pdrop=0.2,
        attn_pdrop=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(tmp_path / "model")
    sections = merged(BASE, {"training": {"micro_batch_size": 2}})
    first = unbroken(tmp_path / "model", sections)
    torch.manual_seed(99)  # whatever was drawn in between
    assert_same_run(first, broken(tmp_path / "model", tmp_path / "saved", sections, sections))


class Uneven:
    """Batches of four sequences that remember which were asked for."""

    def __init__(self) -> None:
        self.first_asked: list[int] = []

    def batches(self, first_step: int) -> Any:
        self.first_asked.append(first_step)
        return RandomBatches().batches(first_step)


def test_resumed_run_whose_steps_follow_memory_takes_the_next_sequences(tmp_path: Path) -> None:
    """With `keep_global_batch: false` a step has other sequences than a batch of the source."""
    folder, saved = write_checkpoint("llama", tmp_path / "model"), tmp_path / "saved"
    saved.mkdir()
    sections = merged(BASE, {"accumulation": {"keep_global_batch": False}, "training": {"micro_batch_size": 1}})

    def short_of_memory(engine: Engine, change_at: int) -> list[tuple[float, int]]:
        seen: list[tuple[float, int]] = []

        def free(_micro: int) -> float:
            return 0.1 if engine.step_count == change_at else 0.4

        engine._free_share = free  # type: ignore[method-assign]

        def on_step(step: int) -> None:
            seen.append((engine.last_metrics["train/loss"], int(engine.last_metrics["accumulation/steps"])))
            if step == 3 and not any(saved.iterdir()):
                engine.snapshot().write(saved)

        engine.train(source, 7, lambda: False, on_step)
        return seen

    source = Uneven()
    with running(folder, **sections) as engine:
        whole = short_of_memory(engine, change_at=2)
    assert [steps for _, steps in whole] == [4, 4, 6, 6, 6, 6, 6]
    with running(saved, **sections) as engine:
        engine.restore(saved)
        rest = short_of_memory(engine, change_at=-1)
    assert rest == whole[3:]
    assert source.first_asked[-1] == 4, "14 sequences were used up: the next is row 2 of batch 4"


@pytest.mark.parametrize(
    "family", ["mixtral (fused experts)", "gpt_neox (parallel residual)", "gemma3 (nested text_config)"]
)
def test_checkpoint_of_a_family_that_transformers_stores_otherwise_is_opened_by_both(
    family: str, tmp_path: Path
) -> None:
    folder, saved = write_family(family, tmp_path / "model"), tmp_path / "saved"
    saved.mkdir()
    with running(folder, **merged(BASE)) as engine:
        train(engine, SOURCE, 1)
        engine.snapshot().write(saved)
        masters = weights_of(engine)
    model = AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32)
    loaded = dict(model.named_parameters(remove_duplicate=False))
    assert all(torch.equal(loaded[name], master) for name, master in masters.items())
    with running(saved, **merged(BASE)) as engine:
        assert engine.restore(saved) == 1
        again = weights_of(engine)
    assert all(torch.equal(again[name], master) for name, master in masters.items())


class Told(threading.Event):
    """Notes that somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_for.set()
        return super().wait(timeout)


def test_checkpoint_written_beside_training_holds_the_step_that_it_names(tmp_path: Path) -> None:
    """The writer starts only once the next step's update waits for it: what it writes is of the step before."""
    folder, early, late = write_checkpoint("llama", tmp_path / "model"), tmp_path / "early", tmp_path / "late"
    early.mkdir()
    late.mkdir()
    released = Told()
    threads: list[threading.Thread] = []
    seen: list[float] = []
    with running(folder, **merged(BASE)) as engine:

        def write_late(snapshot: Snapshot) -> None:
            if released.waited_for.wait(20):
                snapshot.write(late)
            released.set()

        def on_step(step: int) -> None:
            seen.append(engine.last_metrics["train/loss"])
            if step == 2:
                engine.snapshot().write(early)
                threads.append(threading.Thread(target=write_late, args=[engine.snapshot()]))
                engine._m.updates.hold(released)
                threads[0].start()

        engine.train(SOURCE, TOTAL, lambda: False, on_step)
        threads[0].join()
    names = sorted(str(path.relative_to(early)) for path in early.rglob("*") if path.is_file())
    assert "state/exp_avg_sq.safetensors" in names
    for name in names:
        assert (early / name).read_bytes() == (late / name).read_bytes(), name
    assert seen == unbroken(folder, merged(BASE))[0]


def test_checkpoint_counts_the_values_that_are_not_finite(tmp_path: Path) -> None:
    folder, saved = write_checkpoint("llama", tmp_path / "model"), tmp_path / "saved"
    saved.mkdir()
    with running(folder, **merged(BASE)) as engine:
        name = "model.layers.1.mlp.up_proj.weight"
        weight = engine.parameter(name)
        weight[3, :5] = math.nan
        weight[7, 0] = math.inf
        engine._pool.write(engine._partition.by_name[name], weight)
        assert engine.snapshot().write(saved).nonfinite == {name: 6}


@pytest.mark.parametrize(
    ("file", "says"),
    [("state.json", "state.json can't be read"), ("state/exp_avg.safetensors", "exp_avg can't be read")],
)
def test_checkpoint_without_its_state_is_refused_with_the_file(file: str, says: str, tmp_path: Path) -> None:
    folder, saved = write_checkpoint("llama", tmp_path / "model"), tmp_path / "saved"
    saved.mkdir()
    with running(folder, **merged(BASE)) as engine:
        engine.snapshot().write(saved)
    (saved / file).unlink()
    with running(saved, **merged(BASE)) as engine, pytest.raises(CheckpointUnusable, match=says):
        engine.restore(saved)
