"""AdamW over the host pool against torch.optim.AdamW on tensors of its own."""

import pytest
import torch

from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Use
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.optim import adamw
from horizon_app.engine.optim.adamw import AdamWConfig, HostAdamW
from horizon_app.engine.streaming.partition import partition

CONFIG = AdamWConfig(betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
SHAPES = [("norm", (20,)), ("bias", (7,)), ("q", (48, 20)), ("k", (33, 20)), ("second_norm", (5,)), ("v", (9, 20))]
STEPS, RATE = 6, 3e-3


def cut() -> Partition:
    facts = [
        ParameterFacts(name=n, shape=s, use=Use.LINEAR if len(s) > 1 else Use.GATHER, decay=len(s) > 1)
        for n, s in SHAPES
    ]
    return partition([("L0", facts), ("L1", facts)], block_bytes=320 * 4, element_bytes=4)


def filled_pool(part: Partition, dtype: torch.dtype) -> HostPool:
    torch.manual_seed(0)
    pool = HostPool(part, dtype)
    for parameter in part.parameters:
        pool.parameter_view(pool.master, parameter).normal_()
    pool.refresh_weights()
    return pool


def set_gradients(part: Partition, pool: HostPool, step: int) -> list[torch.Tensor]:
    torch.manual_seed(100 + step)
    gradients = [torch.randn(p.shape) for p in part.parameters]
    for parameter, gradient in zip(part.parameters, gradients, strict=True):
        pool.parameter_view(pool.grad, parameter).copy_(gradient)
    return gradients


def run_both(
    dtype: torch.dtype, clip: float, trained: frozenset[int]
) -> tuple[Partition, HostPool, list[torch.Tensor]]:
    part = cut()
    pool = filled_pool(part, dtype)
    leaves = [torch.nn.Parameter(pool.parameter_view(pool.master, p).clone()) for p in part.parameters]
    groups = [
        {"params": [x for x in leaves if x.dim() > 1], "weight_decay": CONFIG.weight_decay},
        {"params": [x for x in leaves if x.dim() == 1], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=RATE, betas=CONFIG.betas, eps=CONFIG.eps)
    optimizer = HostAdamW(part, pool, CONFIG, trained)
    for step in range(1, STEPS + 1):
        for index, gradient in enumerate(set_gradients(part, pool, step)):
            leaves[index].grad = gradient * clip if index in trained else None
        for block in reversed(part.blocks):  # each block is on its own: no order is needed
            optimizer.update(block, step=step, learning_rate=RATE, clip=clip)
        reference.step()
    return part, pool, [leaf.detach() for leaf in leaves]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("clip", [1.0, 0.37])
def test_host_adamw_equals_torch_with_decay_on_matrices_only(dtype: torch.dtype, clip: float) -> None:
    part, pool, expected = run_both(dtype, clip, frozenset(range(2 * len(SHAPES))))
    assert len(part.blocks) > 4, "parameters span several blocks"
    for parameter, leaf in zip(part.parameters, expected, strict=True):
        got = pool.parameter_view(pool.master, parameter)
        torch.testing.assert_close(got, leaf, rtol=1e-5, atol=1e-7, msg=lambda m, p=parameter: f"{p.name}: {m}")


def test_host_adamw_parameters_without_gradient_are_left_alone() -> None:
    trained = frozenset({0, 2, 5, 6, 9})
    part, pool, expected = run_both(torch.float32, 1.0, trained)
    start = filled_pool(part, torch.float32)
    for parameter, leaf in zip(part.parameters, expected, strict=True):
        got = pool.parameter_view(pool.master, parameter)
        torch.testing.assert_close(got, leaf, rtol=1e-5, atol=1e-7)
        assert torch.equal(got, start.parameter_view(start.master, parameter)) == (parameter.index not in trained)


def test_host_adamw_bf16_weights_are_the_masters_rounded() -> None:
    part, pool, _ = run_both(torch.bfloat16, 0.5, frozenset(range(2 * len(SHAPES))))
    assert pool.weight.dtype is torch.bfloat16
    assert torch.equal(pool.weight, pool.master.bfloat16())
    assert not torch.equal(pool.weight, filled_pool(part, torch.bfloat16).weight)


def test_host_adamw_padding_between_parameters_stays_zero() -> None:
    part, pool, _ = run_both(torch.float32, 1.0, frozenset(range(2 * len(SHAPES))))
    padding = torch.ones(part.numel, dtype=torch.bool)
    for parameter in part.parameters:
        padding[parameter.pool_start : parameter.pool_start + parameter.numel] = False
    assert bool(padding.any())
    assert not bool(pool.master[padding].any())


def test_host_adamw_span_longer_than_a_chunk_equals_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole, _ = run_both(torch.bfloat16, 0.5, frozenset(range(2 * len(SHAPES))))
    monkeypatch.setattr(adamw, "CHUNK", 50)
    _, chunked, _ = run_both(torch.bfloat16, 0.5, frozenset(range(2 * len(SHAPES))))
    torch.testing.assert_close(chunked.master, whole.master, rtol=1e-6, atol=1e-8)
    assert torch.equal(chunked.weight, chunked.master.bfloat16())
