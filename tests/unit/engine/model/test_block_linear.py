"""Blockwise products against torch's own linear and transformers' Conv1D."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers.pytorch_utils import Conv1D

from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Segment, Use
from horizon_app.engine.model.block_linear import BlockLinear
from horizon_app.engine.streaming.partition import partition

INSIDE, OUTSIDE, TOKENS = 24, 40, 10
# Elements of a block: the whole weight; cuts of unlike heights; one row a block.
BLOCK_NUMELS = (INSIDE * OUTSIDE, 7 * OUTSIDE, OUTSIDE)
# One product in bf16 is off by about 0.002; many of them may add up to no more than about twice that.
BF16_ERROR = 0.005


class FlatWeight:
    """A `SegmentAccess` on one flat weight. What a product holds is poisoned at the next call: it may be gone then."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.flat = weight.detach().reshape(-1)
        self.gathered = torch.full_like(self.flat, float("nan"))
        self.lent: torch.Tensor | None = None
        self.order: list[int] = []
        self.done: list[int] = []

    def weight(self, segment: Segment) -> torch.Tensor:
        if self.lent is not None:
            self.lent.fill_(float("nan"))
        self.lent = self.flat[segment.pool_start : segment.pool_start + segment.numel].clone()
        self.order.append(segment.index)
        return self.lent

    def gradient(self, segment: Segment) -> torch.Tensor:
        return torch.full((segment.numel,), float("nan"), dtype=self.flat.dtype)

    def gradient_done(self, segment: Segment, gradient: torch.Tensor) -> None:
        self.gathered[segment.pool_start : segment.pool_start + segment.numel] = gradient.reshape(-1)
        self.done.append(segment.index)


def cut(shape: tuple[int, int], use: Use, block_numel: int) -> Partition:
    facts = ParameterFacts(name="weight", shape=shape, use=use, decay=True)
    return partition([("L0", [facts])], block_bytes=block_numel * 4, element_bytes=4)


def layer_on(
    access: FlatWeight, use: Use, part: Partition, bias: nn.Parameter | None, dtype: torch.dtype
) -> BlockLinear:
    return BlockLinear(
        use=use, in_features=INSIDE, out_features=OUTSIDE, segments=part.segments, access=access, bias=bias, dtype=dtype
    )


def reference(use: Use, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    if use is Use.LINEAR:
        return F.linear(x, weight, bias)
    conv = Conv1D(OUTSIDE, INSIDE)
    conv.weight, conv.bias = nn.Parameter(weight), nn.Parameter(torch.zeros(OUTSIDE) if bias is None else bias)
    named = {"weight": weight, "bias": torch.zeros(OUTSIDE, dtype=x.dtype) if bias is None else bias}
    return torch.func.functional_call(conv, named, (x,))


def assert_equal(got: torch.Tensor | None, expected: torch.Tensor | None) -> None:
    """Within 1e-5 in fp32; in bf16 the error's norm is a small part of the value's."""
    assert got is not None and expected is not None
    assert got.dtype is expected.dtype
    if got.dtype is torch.float32:
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    else:
        assert float((got - expected).detach().norm()) < BF16_ERROR * float(expected.detach().norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("block_numel", BLOCK_NUMELS)
@pytest.mark.parametrize("use", [Use.LINEAR, Use.CONV1D])
def test_block_linear_forward_and_backward_equal_the_whole_product(
    use: Use, block_numel: int, with_bias: bool, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    shape = (OUTSIDE, INSIDE) if use is Use.LINEAR else (INSIDE, OUTSIDE)
    weight = (torch.randn(shape) * 0.3).to(dtype).requires_grad_()
    bias = nn.Parameter(torch.randn(OUTSIDE).to(dtype)) if with_bias else None
    x = torch.randn(2, TOKENS // 2, INSIDE).to(dtype)
    above = torch.randn(2, TOKENS // 2, OUTSIDE).to(dtype)

    whole_x = x.clone().requires_grad_()
    whole_y = reference(use, whole_x, weight, bias)
    whole_y.backward(above)
    whole_bias = None if bias is None else bias.grad
    if bias is not None:
        bias.grad = None

    access, part = FlatWeight(weight), cut(shape, use, block_numel)
    block_x = x.clone().requires_grad_()
    block_y = layer_on(access, use, part, bias, dtype)(block_x)
    assert access.order == list(range(len(part.segments)))
    block_y.backward(above)

    assert block_y.dtype is dtype and block_y.shape == whole_y.shape
    assert_equal(block_y, whole_y)
    assert_equal(block_x.grad, whole_x.grad)
    assert_equal(access.gathered.view(shape), weight.grad)
    if bias is not None:
        assert_equal(bias.grad, whole_bias)
    assert access.done == list(reversed(range(len(part.segments)))), "backward walks the blocks the other way"
    assert (len(part.segments) == 1) == (block_numel == BLOCK_NUMELS[0])


def test_block_linear_one_segment_fp32_is_bit_equal_to_linear() -> None:
    torch.manual_seed(1)
    weight, bias = torch.randn(OUTSIDE, INSIDE), nn.Parameter(torch.randn(OUTSIDE))
    part = cut((OUTSIDE, INSIDE), Use.LINEAR, BLOCK_NUMELS[0])
    x = torch.randn(TOKENS, INSIDE)
    layer = layer_on(FlatWeight(weight), Use.LINEAR, part, bias, torch.float32)
    assert torch.equal(layer(x), F.linear(x, weight, bias))


def test_block_linear_bf16_bias_stays_in_fp32_and_rounds_once() -> None:
    """The bias goes into the product: the sum is rounded to bf16 once, as in torch's own linear."""
    torch.manual_seed(2)
    weight, bias = torch.randn(OUTSIDE, INSIDE).bfloat16(), nn.Parameter(torch.randn(OUTSIDE))
    part = cut((OUTSIDE, INSIDE), Use.LINEAR, BLOCK_NUMELS[0])
    x = torch.randn(TOKENS, INSIDE)
    layer = layer_on(FlatWeight(weight), Use.LINEAR, part, bias, torch.bfloat16)
    y = layer(x)
    assert y.dtype is torch.bfloat16
    assert torch.equal(y, F.linear(x.bfloat16(), weight, bias.bfloat16()))
    y.sum().backward()
    assert bias.grad is not None and bias.grad.dtype is torch.float32
    assert bias.grad.tolist() == [TOKENS] * OUTSIDE


def test_block_linear_input_that_needs_no_gradient_still_gives_the_weights_theirs() -> None:
    weight = torch.randn(OUTSIDE, INSIDE)
    access, part = FlatWeight(weight), cut((OUTSIDE, INSIDE), Use.LINEAR, BLOCK_NUMELS[1])
    x = torch.randn(TOKENS, INSIDE)
    layer = layer_on(access, Use.LINEAR, part, nn.Parameter(torch.zeros(OUTSIDE)), torch.float32)
    layer(x).sum().backward()
    torch.testing.assert_close(access.gathered.view(OUTSIDE, INSIDE), x.sum(0).expand(OUTSIDE, INSIDE))
