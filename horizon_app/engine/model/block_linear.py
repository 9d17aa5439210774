"""Linear layers that run block by block, so that no block needs a neighbour in memory.

              W of shape [out, in] (`nn.Linear`)    W of shape [in, out] (GPT-2's `Conv1D`)
    forward   y[:, rows] = x @ W[rows].T            y += x[:, rows] @ W[rows]
    input     dx += dy[:, rows] @ W[rows]           dx[:, rows] = dy @ W[rows].T
    weight    dW[rows] = dy[:, rows].T @ x          dW[rows] = x[:, rows].T @ dy

Shape suffixes: T tokens, I inputs, O outputs, R rows of one segment.
Which rows run as one product is decided by the partition alone, so no result depends on timing, arena or policy.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import nn
from torch.autograd.function import FunctionCtx

from horizon_app.engine.memory.geometry import Segment, Use
from horizon_app.engine.model.transposition import multiply_transposed

MOST_ROUNDED_SUMS = 4
"""Up to this many partial products are summed in the compute dtype; more would add their rounding up (8 in bf16 double
the error of one product, 120 make it eightfold), so they are summed in fp32."""


class SegmentAccess(Protocol):
    """Where products get weights from and leave gradients at."""

    def weight(self, segment: Segment) -> torch.Tensor:
        """The segment's weights on the device, flat; good until the next call of `weight`."""
        ...

    def gradient(self, segment: Segment) -> torch.Tensor:
        """Memory on the device for the segment's gradient, flat, uninitialised."""
        ...

    def gradient_done(self, segment: Segment, gradient: torch.Tensor) -> None:
        """The gradient is written; take it away."""
        ...


class BlockLinear(nn.Module):
    """Stands in for a linear layer whose weight is streamed. Holds no weight itself."""

    bias: nn.Parameter | None

    def __init__(
        self, *, use: Use, in_features: int, out_features: int, segments: Sequence[Segment], access: SegmentAccess,
        bias: nn.Parameter | None, dtype: torch.dtype, out_dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        """Multiplies in `dtype`; the answer has the input's dtype, or `out_dtype`."""
        super().__init__()
        self.use, self.in_features, self.out_features = use, in_features, out_features
        self.segments, self.access, self.dtype = tuple(segments), access, dtype
        self.out_dtype = out_dtype
        self.register_parameter("bias", bias)

    @property
    def weight(self) -> torch.Tensor:
        """Nothing, in the dtype of the weights: families ask their linears for it, and none may compute with it."""
        return torch.empty(0, dtype=self.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Answers x W^T + b. Shapes: x is [..., I], y is [..., O]."""
        x_TI = x.reshape(-1, self.in_features).to(self.dtype)
        y_TO = _BlockProduct.apply(x_TI, self.bias, self)
        if self.dtype == torch.float32:  # a layer kept in fp32 hands on what its neighbours expect
            y_TO = y_TO.to(self.out_dtype or x.dtype)
        return y_TO.view(*x.shape[:-1], self.out_features)


class _BlockProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x_TI: torch.Tensor, bias_O: torch.Tensor | None, layer: BlockLinear) -> torch.Tensor:
        ctx.save_for_backward(x_TI)
        ctx.layer = layer  # type: ignore[attr-defined]
        # The bias goes into the product, as in torch's own linear: added afterwards, it would round once more.
        bias_O = None if bias_O is None else bias_O.to(layer.dtype)
        forward = _forward_rows if layer.use is Use.LINEAR else _forward_columns
        return forward(x_TI, bias_O, layer)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
        (x_TI,), (dy_TO,) = ctx.saved_tensors, grad_outputs
        layer: BlockLinear = ctx.layer
        step = _backward_rows if layer.use is Use.LINEAR else _backward_columns
        dbias_O = None if layer.bias is None else dy_TO.sum(0, dtype=layer.bias.dtype)
        return step(x_TI, dy_TO.contiguous(), layer), dbias_O, None


def _weight(layer: BlockLinear, segment: Segment) -> torch.Tensor:
    """The segment's weights in the dtype of the product; the same memory, unless the layer is kept in fp32."""
    return layer.access.weight(segment).to(layer.dtype)


def _product(
    bias_O: torch.Tensor | None, x_TI: torch.Tensor, w_IO: torch.Tensor, out_TO: torch.Tensor | None = None
) -> torch.Tensor:
    return torch.mm(x_TI, w_IO, out=out_TO) if bias_O is None else torch.addmm(bias_O, x_TI, w_IO, out=out_TO)


def _add_product(
    sum_TN: torch.Tensor | None, a_TM: torch.Tensor, b_MN: torch.Tensor, num_products: int,
    bias_N: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """The sum so far plus a b (the first with the bias), in fp32 where `num_products` would round too often."""
    if sum_TN is None:
        first_TN = _product(bias_N, a_TM, b_MN)
        return first_TN if num_products <= MOST_ROUNDED_SUMS else first_TN.float()
    return sum_TN.addmm_(a_TM, b_MN) if sum_TN.dtype == a_TM.dtype else sum_TN.add_(torch.mm(a_TM, b_MN))


def _forward_rows(x_TI: torch.Tensor, bias_O: torch.Tensor | None, layer: BlockLinear) -> torch.Tensor:
    if len(layer.segments) == 1:
        w_RI = _weight(layer, layer.segments[0]).view(-1, layer.in_features)
        return _product(bias_O, x_TI, w_RI.t())
    y_TO = x_TI.new_empty(x_TI.shape[0], layer.out_features)
    for segment in layer.segments:
        rows = slice(segment.row_start, segment.row_end)
        w_RI = _weight(layer, segment).view(-1, layer.in_features)
        _product(None if bias_O is None else bias_O[rows], x_TI, w_RI.t(), y_TO[:, rows])
    return y_TO


def _forward_columns(x_TI: torch.Tensor, bias_O: torch.Tensor | None, layer: BlockLinear) -> torch.Tensor:
    y_TO: torch.Tensor | None = None
    for segment in layer.segments:
        w_RO = _weight(layer, segment).view(-1, layer.out_features)
        x_TR = x_TI[:, segment.row_start : segment.row_end]
        y_TO = _add_product(y_TO, x_TR, w_RO, len(layer.segments), bias_O)
    if y_TO is None:
        raise AssertionError("a linear layer has at least one segment")
    return y_TO.to(x_TI.dtype)


def _backward_rows(x_TI: torch.Tensor, dy_TO: torch.Tensor, layer: BlockLinear) -> torch.Tensor:
    dx_TI: torch.Tensor | None = None
    for segment in reversed(layer.segments):
        dy_TR = dy_TO[:, segment.row_start : segment.row_end]
        w_RI = _weight(layer, segment).view(-1, layer.in_features)
        dx_TI = _add_product(dx_TI, dy_TR, w_RI, len(layer.segments))
        dw_RI = layer.access.gradient(segment).view(-1, layer.in_features)
        multiply_transposed(dy_TR, x_TI, dw_RI)
        layer.access.gradient_done(segment, dw_RI)
    if dx_TI is None:
        raise AssertionError("a linear layer has at least one segment")
    return dx_TI.to(x_TI.dtype)


def _backward_columns(x_TI: torch.Tensor, dy_TO: torch.Tensor, layer: BlockLinear) -> torch.Tensor:
    dx_TI = torch.empty_like(x_TI)
    for segment in reversed(layer.segments):
        w_RO = _weight(layer, segment).view(-1, layer.out_features)
        torch.mm(dy_TO, w_RO.t(), out=dx_TI[:, segment.row_start : segment.row_end])
        dw_RO = layer.access.gradient(segment).view(-1, layer.out_features)
        multiply_transposed(x_TI[:, segment.row_start : segment.row_end], dy_TO, dw_RO)
        layer.access.gradient_done(segment, dw_RO)
    return dx_TI
