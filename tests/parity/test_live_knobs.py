"""Knobs that change between two optimizer steps: not a bit of the losses and weights does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.errors import ArenaTooSmall
from horizon_app.engine.training.engine import Engine
from tests.support.chaos import ChaosBackend
from tests.support.engines import NotingSink, running, train, weights_of
from tests.support.tiny_models import RandomBatches, write_checkpoint

SOURCE = RandomBatches()
STEPS = 8
BLOCK = "16KiB"
SECTIONS: dict[str, Any] = {"training": {"micro_batch_size": 2}, "compute": {"recompute": "always"}}
Result = tuple[list[float], dict[str, torch.Tensor]]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def undisturbed(llama: Path) -> Result:
    with running(llama, offload={"param_block_size": BLOCK, "max_gpu_blocks": 5}, **SECTIONS) as engine:
        return [step["train/loss"] for step in train(engine, SOURCE, STEPS)], weights_of(engine)


def train_with_requests(
    engine: Engine, requests: Mapping[int, Mapping[str, Any]]
) -> tuple[list[float], list[int], list[float]]:
    """Losses, slots of the arena and windows of each step; what is requested after a step holds from the next one."""
    losses: list[float] = []
    slots: list[int] = []
    windows: list[float] = []

    def on_step(step: int) -> None:
        losses.append(engine.last_metrics["train/loss"])
        slots.append(engine._m.arena.num_slots)
        windows.append(engine.last_metrics["prefetch/window"])
        if step in requests:
            engine.request(**requests[step])

    engine.train(SOURCE, STEPS, lambda: False, on_step)
    return losses, slots, windows


def assert_same(losses: list[float], engine: Engine, undisturbed: Result) -> None:
    assert losses == undisturbed[0]
    weights = weights_of(engine)
    assert all(torch.equal(weights[name], undisturbed[1][name]) for name in weights)


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("paged", [False, True], ids=["ram", "paged"])
def test_engine_knobs_changed_while_running_change_no_bit(
    paged: bool, threads: int, llama: Path, undisturbed: Result, tmp_path: Path
) -> None:
    requests: dict[int, dict[str, Any]] = {
        1: {"max_blocks": 20, "policy": Policy.LRU},
        2: {"window": 0},
        3: {"max_blocks": 2, "window": 8},
        4: {"policy": Policy.CLOCK_PRO, "window": 1},
        5: {"max_blocks": 1000, "policy": Policy.OPTIMAL},
        6: {"max_blocks": 3, "auto_window": True},
    }
    offload = {"param_block_size": BLOCK, "max_gpu_blocks": 5, "disk": "on" if paged else "off"}
    sink = NotingSink()
    with running(
        llama, sink=sink, disk_dir=tmp_path, overrides={"update_threads": threads}, offload=offload, **SECTIONS
    ) as engine:
        losses, slots, windows = train_with_requests(engine, requests)
        whole = engine._m.table.num_blocks + 2
        assert slots == [5, 20, 20, 2, 2, whole, 3, 3]
        assert windows[:6] == [3.0, 3.0, 0.0, 8.0, 1.0, 1.0]
        assert_same(losses, engine, undisturbed)
    changed = [(data["step"], data["knob"], data["old"], data["new"]) for data in sink.data_of("changed")]
    assert changed == [
        (2, "policy", "clock_pro", "lru"), (2, "max_gpu_blocks", 5, 20), (3, "prefetch_window", 3, 0),
        (4, "prefetch_window", 0, 8), (4, "max_gpu_blocks", 20, 2), (5, "prefetch_window", 8, 1),
        (5, "policy", "lru", "clock_pro"), (6, "policy", "clock_pro", "optimal"), (6, "max_gpu_blocks", 2, whole),
        (7, "prefetch_window", 1, "auto"), (7, "max_gpu_blocks", whole, 3),
    ]  # fmt: skip
    assert all(str(data["step"]) in message and data["knob"] in message for _, message, data in sink.notes)


def test_engine_arena_never_holds_more_than_was_asked_for_last(llama: Path) -> None:
    """Gradients give way too: a large arena lends them more than one slot, the smallest one does not."""
    with running(llama, offload={"param_block_size": BLOCK, "max_gpu_blocks": 20}, **SECTIONS) as engine:
        most: list[float] = []

        def on_step(step: int) -> None:
            most.append(engine.last_metrics["tier/device_bytes"] / (16 << 10))
            engine.request(max_blocks={1: 2, 2: 12, 3: 4}.get(step, 2))

        engine.train(SOURCE, 5, lambda: False, on_step)
    assert [used <= limit for used, limit in zip(most, [20, 2, 12, 4, 2], strict=True)] == [True] * 5, most


def test_engine_later_request_wins_over_an_earlier_one(llama: Path, undisturbed: Result) -> None:
    sink = NotingSink()
    with running(llama, sink=sink, offload={"param_block_size": BLOCK, "max_gpu_blocks": 5}, **SECTIONS) as engine:
        engine.request(window=7, max_blocks=9)
        engine.request(window=2)
        engine.request(policy=Policy.CLOCK_PRO)  # what it is already
        losses, slots, windows = train_with_requests(engine, {})
        assert (set(slots), set(windows)) == ({9}, {2.0})
        assert_same(losses, engine, undisturbed)
    assert [data["knob"] for data in sink.data_of("changed")] == ["prefetch_window", "max_gpu_blocks"]


def test_engine_arena_that_is_too_small_is_refused_when_it_is_asked_for_and_the_run_goes_on(
    llama: Path, undisturbed: Result
) -> None:
    with running(llama, offload={"param_block_size": BLOCK, "max_gpu_blocks": 5}, **SECTIONS) as engine:
        with pytest.raises(ArenaTooSmall) as refusal:
            engine.request(max_blocks=1, window=0)
        assert refusal.value.needed == 2
        losses, slots, windows = train_with_requests(engine, {})
        assert (set(slots), set(windows)) == ({5}, {3.0})
        assert_same(losses, engine, undisturbed)


def test_engine_arena_without_copies_stays_as_it_is_and_says_so(llama: Path, undisturbed: Result) -> None:
    sink = NotingSink()
    with running(llama, sink=sink, offload={"param_block_size": BLOCK}, **SECTIONS) as engine:
        losses, slots, _ = train_with_requests(engine, {2: {"max_blocks": 30}})
        assert set(slots) == {2}
        assert_same(losses, engine, undisturbed)
    assert [line for line in sink.lines if line[0] == "warning"] == [
        ("warning", "max_gpu_blocks has no effect: products read the weights where they lie in RAM")
    ]
    assert sink.data_of("changed") == []


def test_engine_window_auto_widens_while_compute_waits(llama: Path, undisturbed: Result) -> None:
    offload = {"param_block_size": BLOCK, "max_gpu_blocks": 5, "prefetch_window": "auto"}
    with running(llama, offload=offload, **SECTIONS) as engine:
        counters = engine._m.counters
        real = engine._knobs.after_step

        def after_step(seconds: float) -> None:
            counters.stall_s, counters.late = seconds, 1  # as if it had done nothing but wait for a block
            real(seconds)

        engine._knobs.after_step = after_step
        losses, _, windows = train_with_requests(engine, {})
        assert windows == [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 8.0, 8.0]
        assert_same(losses, engine, undisturbed)


class SmallDevice(ChaosBackend):
    """Has memory for so many slots."""

    most_slots = 10

    def new_arena(self, num_slots: int, block_numel: int, dtype: torch.dtype) -> torch.Tensor:
        if num_slots > self.most_slots:
            raise torch.OutOfMemoryError("out of memory: tried to allocate 9 GiB")
        return super().new_arena(num_slots, block_numel, dtype)


def test_engine_arena_that_the_device_has_no_memory_for_leaves_the_old_one(llama: Path, undisturbed: Result) -> None:
    requests: dict[int, dict[str, Any]] = {1: {"max_blocks": 20}, 2: {"max_blocks": 9}}
    sink, offload = NotingSink(), {"param_block_size": BLOCK, "max_gpu_blocks": 5}
    with running(llama, sink=sink, backend=SmallDevice(0), offload=offload, **SECTIONS) as engine:
        losses, slots, _ = train_with_requests(engine, requests)
        assert_same(losses, engine, undisturbed)
    assert slots == [5, 5, 9, 9, 9, 9, 9, 9]
    assert [line for line in sink.lines if "max_gpu_blocks stays 5" in line[1] and "9 GiB" in line[1]]
