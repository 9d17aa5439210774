"""Knobs that change between two optimizer steps: not a bit of the losses and weights does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from horizon_app.contracts.knobs import AskedChange, Knob, KnobStatus, KnobValue
from horizon_app.engine.training.engine import Engine
from tests.support.chaos import ChaosBackend
from tests.support.engines import NotingSink, running, train, weights_of
from tests.support.tiny_models import RandomBatches, write_checkpoint

SOURCE = RandomBatches()
STEPS = 8
BLOCK = "16KiB"
SECTIONS: dict[str, Any] = {"training": {"micro_batch_size": 2}, "compute": {"recompute": "always"}}
Wish = Sequence[tuple[Knob, KnobValue]]
Result = tuple[list[float], dict[str, torch.Tensor]]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def undisturbed(llama: Path) -> Result:
    with running(llama, offload={"param_block_size": BLOCK, "max_gpu_blocks": 5}, **SECTIONS) as engine:
        return [step["train/loss"] for step in train(engine, SOURCE, STEPS)], weights_of(engine)


def request(engine: Engine, *wishes: tuple[Knob, KnobValue]) -> None:
    for number, (knob, value) in enumerate(wishes, start=1):
        engine.request(AskedChange(number=number, knob=knob, value=value, who="ada"))


def train_with_requests(engine: Engine, requests: Mapping[int, Wish]) -> tuple[list[float], list[int], list[float]]:
    """Losses, slots of the arena and windows of each step; what is requested after a step holds from the next one."""
    losses: list[float] = []
    slots: list[int] = []
    windows: list[float] = []

    def on_step(step: int) -> None:
        losses.append(engine.last_metrics["train/loss"])
        slots.append(engine._m.arena.num_slots)
        windows.append(engine.last_metrics["prefetch/window"])
        if step in requests:
            request(engine, *requests[step])

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
    requests: dict[int, Wish] = {
        1: [(Knob.MAX_GPU_BLOCKS, 20), (Knob.POLICY, "lru")],
        2: [(Knob.PREFETCH_WINDOW, 0)],
        3: [(Knob.MAX_GPU_BLOCKS, 2), (Knob.PREFETCH_WINDOW, 8)],
        4: [(Knob.POLICY, "clock_pro"), (Knob.PREFETCH_WINDOW, 1)],
        5: [(Knob.MAX_GPU_BLOCKS, 1000), (Knob.POLICY, "optimal")],
        6: [(Knob.MAX_GPU_BLOCKS, 3), (Knob.PREFETCH_WINDOW, "auto")],
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
    assert [(one.step, one.knob.value, one.old, one.new) for one in sink.knobs] == [
        (2, "max_gpu_blocks", 5, 20), (2, "policy", "clock_pro", "lru"), (3, "prefetch_window", 3, 0),
        (4, "max_gpu_blocks", 20, 2), (4, "prefetch_window", 0, 8), (5, "policy", "lru", "clock_pro"),
        (5, "prefetch_window", 8, 1), (6, "max_gpu_blocks", 2, whole), (6, "policy", "clock_pro", "optimal"),
        (7, "max_gpu_blocks", whole, 3), (7, "prefetch_window", 1, "auto"),
    ]  # fmt: skip
    assert all(one.status is KnobStatus.HOLDS and f"step {one.step}" in one.message for one in sink.knobs)


def test_engine_arena_never_holds_more_than_was_asked_for_last(llama: Path) -> None:
    """Gradients give way too: a large arena lends them more than one slot, the smallest one does not."""
    with running(llama, offload={"param_block_size": BLOCK, "max_gpu_blocks": 20}, **SECTIONS) as engine:
        most: list[float] = []

        def on_step(step: int) -> None:
            most.append(engine.last_metrics["tier/device_bytes"] / (16 << 10))
            request(engine, (Knob.MAX_GPU_BLOCKS, {1: 2, 2: 12, 3: 4}.get(step, 2)))

        engine.train(SOURCE, 5, lambda: False, on_step)
    assert [used <= limit for used, limit in zip(most, [20, 2, 12, 4, 2], strict=True)] == [True] * 5, most


def test_engine_later_request_wins_over_an_earlier_one(llama: Path, undisturbed: Result) -> None:
    sink = NotingSink()
    with running(llama, sink=sink, offload={"param_block_size": BLOCK, "max_gpu_blocks": 5}, **SECTIONS) as engine:
        request(engine, (Knob.PREFETCH_WINDOW, 7), (Knob.MAX_GPU_BLOCKS, 9), (Knob.PREFETCH_WINDOW, 2))
        request(engine, (Knob.POLICY, "clock_pro"))  # what it is already
        losses, slots, windows = train_with_requests(engine, {})
        assert (set(slots), set(windows)) == ({9}, {2.0})
        assert_same(losses, engine, undisturbed)
    assert [(one.number, one.old, one.new, one.step) for one in sink.knobs] == [
        (1, 3, 7, 1), (2, 5, 9, 1), (3, 7, 2, 1), (1, "clock_pro", "clock_pro", 1),
    ]  # fmt: skip


def test_engine_arena_that_is_too_small_is_refused_and_the_run_goes_on(llama: Path, undisturbed: Result) -> None:
    sink = NotingSink()
    with running(llama, sink=sink, offload={"param_block_size": BLOCK, "max_gpu_blocks": 5}, **SECTIONS) as engine:
        request(engine, (Knob.MAX_GPU_BLOCKS, 1))
        losses, slots, windows = train_with_requests(engine, {})
        assert (set(slots), set(windows)) == ({5}, {3.0})
        assert_same(losses, engine, undisturbed)
    [refused] = sink.knobs
    assert (refused.status, refused.step) == (KnobStatus.REFUSED, 1)
    assert "max_gpu_blocks stays 5" in refused.message and "needs 2 slots" in refused.message


def test_engine_arena_without_copies_stays_as_it_is_and_says_so(llama: Path, undisturbed: Result) -> None:
    sink = NotingSink()
    with running(llama, sink=sink, offload={"param_block_size": BLOCK}, **SECTIONS) as engine:
        losses, slots, _ = train_with_requests(engine, {2: [(Knob.MAX_GPU_BLOCKS, 30)]})
        assert set(slots) == {2}
        assert_same(losses, engine, undisturbed)
    [refused] = sink.knobs
    assert (refused.status, refused.step) == (KnobStatus.REFUSED, 3)
    assert "no effect" in refused.message


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
    requests: dict[int, Wish] = {1: [(Knob.MAX_GPU_BLOCKS, 20)], 2: [(Knob.MAX_GPU_BLOCKS, 9)]}
    sink, offload = NotingSink(), {"param_block_size": BLOCK, "max_gpu_blocks": 5}
    with running(llama, sink=sink, backend=SmallDevice(0), offload=offload, **SECTIONS) as engine:
        losses, slots, _ = train_with_requests(engine, requests)
        assert_same(losses, engine, undisturbed)
    assert slots == [5, 5, 9, 9, 9, 9, 9, 9]
    assert [one.status.value for one in sink.knobs] == ["refused", "holds"]
    assert "max_gpu_blocks stays 5" in sink.knobs[0].message and "9 GiB" in sink.knobs[0].message
