"""AdamW over the host pool against torch.optim.AdamW on tensors of its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Use
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import Opening, PlaneName
from horizon_app.engine.memory.resident_plane import ResidentPlane
from horizon_app.engine.optim import adamw
from horizon_app.engine.optim.adamw import AdamWConfig, HostAdamW, Update
from horizon_app.engine.optim.moments import FullMoments
from horizon_app.engine.streaming.partition import partition
from tests.support.host_pools import fill_parameters, host_pool, read_all, write_plane

CONFIG = AdamWConfig(betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
SHAPES = [("norm", (20,)), ("bias", (7,)), ("q", (48, 20)), ("k", (33, 20)), ("second_norm", (5,)), ("v", (9, 20))]
STEPS, RATE = 6, 3e-3
EVERYTHING = frozenset(range(2 * len(SHAPES)))


def cut() -> Partition:
    stages = [
        (stage, [
            ParameterFacts(name=f"{stage}.{n}", shape=s, use=Use.LINEAR if len(s) > 1 else Use.GATHER, decay=len(s) > 1)
            for n, s in SHAPES
        ])
        for stage in ("L0", "L1")
    ]  # fmt: skip
    return partition(stages, block_bytes=320 * 4, element_bytes=4)


def filled_pool(part: Partition, dtype: torch.dtype, **paging: Any) -> HostPool:
    pool = host_pool(part, dtype, **paging)
    fill_parameters(part, pool)
    return pool


def set_gradients(part: Partition, pool: HostPool, step: int) -> list[torch.Tensor]:
    torch.manual_seed(100 + step)
    gradients = [torch.randn(p.shape) for p in part.parameters]
    for block in part.blocks:
        with pool.block(PlaneName.GRAD, block).opened(Opening.FILL) as content:
            content.zero_()
    for parameter, gradient in zip(part.parameters, gradients, strict=True):
        write_plane(part, pool, PlaneName.GRAD, parameter, gradient)
    return gradients


def step_all(part: Partition, optimizer: HostAdamW, step: int, factor: float) -> None:
    update = Update(step=step, learning_rate=RATE, factor=factor)
    for block in reversed(part.blocks):  # each block is on its own: no order is needed
        optimizer.update(block, update)


def run_both(
    dtype: torch.dtype, factor: float, trained: frozenset[int] = EVERYTHING, decay: float = 0.0, **paging: Any
) -> tuple[Partition, HostPool, list[torch.Tensor]]:
    """The engine's optimizer and torch's; `decay` is that of a moving average over gradients."""
    part = cut()
    pool = filled_pool(part, dtype, averages=decay > 0, **paging)
    leaves = [torch.nn.Parameter(pool.read(p)) for p in part.parameters]
    groups = [
        {"params": [x for x in leaves if x.dim() > 1], "weight_decay": CONFIG.weight_decay},
        {"params": [x for x in leaves if x.dim() == 1], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=RATE, betas=CONFIG.betas, eps=CONFIG.eps)
    optimizer = HostAdamW(part, pool, replace(CONFIG, gradient_ema=decay), FullMoments(), trained)
    averages = [torch.zeros(p.shape) for p in part.parameters]
    for step in range(1, STEPS + 1):
        for index, gradient in enumerate(set_gradients(part, pool, step)):
            averages[index] = decay * averages[index] + (1 - decay) * gradient * factor
            leaves[index].grad = averages[index] / (1 - decay**step) if index in trained else None
        step_all(part, optimizer, step, factor)
        reference.step()
    return part, pool, [leaf.detach() for leaf in leaves]


def assert_close(part: Partition, pool: HostPool, expected: list[torch.Tensor]) -> None:
    for parameter, leaf in zip(part.parameters, expected, strict=True):
        got = pool.read(parameter)
        torch.testing.assert_close(got, leaf, rtol=1e-5, atol=1e-7, msg=lambda m, p=parameter: f"{p.name}: {m}")


@pytest.mark.parametrize("decay", [0.0, 0.9], ids=["gradients", "averages"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("factor", [1.0, 0.37])
def test_host_adamw_equals_torch_with_decay_on_matrices_only(dtype: torch.dtype, factor: float, decay: float) -> None:
    part, pool, expected = run_both(dtype, factor, decay=decay)
    assert len(part.blocks) > 4, "parameters span several blocks"
    assert_close(part, pool, expected)


def test_host_adamw_parameters_without_gradient_are_left_alone() -> None:
    trained = frozenset({0, 2, 5, 6, 9})
    part, pool, expected = run_both(torch.float32, 1.0, trained)
    start = read_all(part, filled_pool(part, torch.float32))
    assert_close(part, pool, expected)
    for parameter in part.parameters:
        assert torch.equal(pool.read(parameter), start[parameter.name]) == (parameter.index not in trained)


def test_host_adamw_bf16_weights_are_the_masters_rounded() -> None:
    part, pool, _ = run_both(torch.bfloat16, 0.5)
    start = read_all(part, filled_pool(part, torch.bfloat16), PlaneName.WEIGHT)
    for parameter in part.parameters:
        weight = pool.read(parameter, PlaneName.WEIGHT)
        assert weight.dtype is torch.bfloat16
        assert torch.equal(weight, pool.read(parameter).bfloat16())
        assert not torch.equal(weight, start[parameter.name])


def test_host_adamw_padding_between_parameters_stays_zero() -> None:
    part, pool, _ = run_both(torch.float32, 1.0)
    padding = torch.ones(part.numel, dtype=torch.bool)
    for parameter in part.parameters:
        padding[parameter.pool_start : parameter.pool_start + parameter.numel] = False
    assert bool(padding.any())
    master = pool.planes[PlaneName.MASTER]
    assert isinstance(master, ResidentPlane)
    assert not bool(master.whole[padding].any())


def test_host_adamw_span_longer_than_a_chunk_equals_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    part, whole, _ = run_both(torch.bfloat16, 0.5)
    monkeypatch.setattr(adamw, "CHUNK", 50)
    _, chunked, _ = run_both(torch.bfloat16, 0.5)
    for parameter in part.parameters:
        master = chunked.read(parameter)
        torch.testing.assert_close(master, whole.read(parameter), rtol=1e-6, atol=1e-8)
        assert torch.equal(chunked.read(parameter, PlaneName.WEIGHT), master.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_host_adamw_on_pages_equals_the_same_in_ram_to_the_last_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    part, in_ram, _ = run_both(dtype, 0.5, decay=0.9)
    _, paged, _ = run_both(dtype, 0.5, decay=0.9, folder=tmp_path, frames=4)
    try:
        for name in (PlaneName.MASTER, PlaneName.WEIGHT, PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ):
            expected = read_all(part, in_ram, name)
            assert all(torch.equal(got, expected[key]) for key, got in read_all(part, paged, name).items()), name
    finally:
        paged.close()


def test_host_adamw_of_a_gradient_that_is_used_up_moves_nothing_that_has_no_momentum(tmp_path: Path) -> None:
    """A page of gradients that nobody has written since the last update holds zeros again."""
    part = cut()
    pool = filled_pool(part, torch.float32, folder=tmp_path, frames=4)
    try:
        optimizer = HostAdamW(
            part, pool, replace(CONFIG, betas=(0.0, 0.0), weight_decay=0.0), FullMoments(), EVERYTHING
        )
        set_gradients(part, pool, 1)
        step_all(part, optimizer, 1, 1.0)
        after = read_all(part, pool)
        step_all(part, optimizer, 2, 1.0)
        assert all(torch.equal(got, after[name]) for name, got in read_all(part, pool).items())
    finally:
        pool.close()
