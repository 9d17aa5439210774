"""AdamW's moments in 8 bits an element, with an fp32 scale for each run of 256 elements.

A scale for each short run keeps an outlier from costing its neighbours their precision (Dettmers et al., "8-bit
Optimizers via Block-wise Quantization", 2022). Within a run a value is stored as the rounded fourth root of its share
of the run's largest: relative precision changes slowly over more than eight decades, as with that paper's dynamic tree,
but there is no table to search, so every step is one vector instruction.

The second moment moves by a thousandth a step, far less than codes lie apart: with rounding to the nearest it can only
rise. (Measured with beta2 0.999: 1,500 steps after some gradients had become smaller, their second moments were twice
what they should be; as done here, 3% off.) So it is rounded up or down by a threshold that changes with the run's
scale, right on average. The threshold depends on the run's content alone: the same values give the same bits, in
whatever pieces they are packed, after a resume too, and what was packed and unpacked packs to the same bits again.

Packed plane of `numel` elements: a byte each, padding to 4 bytes, then the scales. A plane of zero bytes holds zeros.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch

from horizon_app.engine.errors import NonFiniteMoment

QUANT_BLOCK = 256
"""Elements that share a scale."""
SIGNED_TOP, UNSIGNED_TOP = 127, 255
"""The code of a run's largest value."""
PIECE = 1 << 17
"""Elements taken at a time: two fp32 pieces stay in the cache of their cores."""
THRESHOLD_ROWS = 128
MARGIN = 1e-3
"""Thresholds keep away from 0 and 1 by more than a code's rounding error: an exact code stays what it is."""
SMALLEST_SCALE = 2.0**-90
"""So that the smallest code too stands for a number that fp32 holds at full precision."""
_SCALE_BYTES = 4
_HASH, _HASH_SHIFT = -1640531535, 25  # 2**32 / golden ratio as int32; the 7 upper bits of a product name a row
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def packed_bytes(numel: int) -> int:
    """Bytes of one packed plane."""
    return _scales_at(numel) + _SCALE_BYTES * -(-numel // QUANT_BLOCK)


def unpack_signed(packed: torch.Tensor, start: int, end: int, numel: int, out: torch.Tensor) -> None:
    """Elements [start, end) of a first moment.

    Shapes: packed [packed_bytes(numel)] uint8, 4-byte aligned; out [end - start] fp32. `start`, and `end` unless it is
    `numel`, are multiples of QUANT_BLOCK.
    """
    for piece in _pieces(start, end, numel):
        values, scales = out[piece.inside], _scales(packed, numel)[piece.runs]
        values.copy_(packed[piece.elements].view(torch.int8)).div_(SIGNED_TOP)
        sign = values.clone()
        values.square_().square_().copysign_(sign).view(-1, piece.run).mul_(scales[:, None])


def unpack_unsigned(packed: torch.Tensor, start: int, end: int, numel: int, out: torch.Tensor) -> None:
    """Elements [start, end) of a second moment; see unpack_signed."""
    for piece in _pieces(start, end, numel):
        values, scales = out[piece.inside], _scales(packed, numel)[piece.runs]
        values.copy_(packed[piece.elements]).div_(UNSIGNED_TOP)
        values.square_().square_().view(-1, piece.run).mul_(scales[:, None])


def pack_signed(values: torch.Tensor, packed: torch.Tensor, start: int, end: int, numel: int) -> None:
    """Store a first moment as elements [start, end). Shapes: see unpack_signed. Raises NonFiniteMoment."""
    for piece in _pieces(start, end, numel):
        part = values[piece.inside]
        share = part.abs()
        scales = _largest(share, piece.run, "first")
        _fourth_root_of_share(share, scales, piece.run).mul_(SIGNED_TOP).round_().copysign_(part)
        _store(share, torch.int8, scales, packed, piece, numel)


def pack_unsigned(values: torch.Tensor, packed: torch.Tensor, start: int, end: int, numel: int) -> None:
    """Store a second moment as elements [start, end). Shapes: see unpack_signed. Raises NonFiniteMoment.

    A value above zero is never stored as zero: the next update would divide a first moment that is still there by eps.
    """
    for piece in _pieces(start, end, numel):
        part = values[piece.inside]
        scales = _largest(part, piece.run, "second")
        share = _fourth_root_of_share(part.clone(), scales, piece.run).mul_(UNSIGNED_TOP)
        share.view(-1, piece.run).add_(_thresholds().index_select(0, _rows(scales))[:, : piece.run])
        torch.maximum(share.floor_(), part.sign(), out=share)
        _store(share, torch.uint8, scales, packed, piece, numel)


class _Piece(NamedTuple):
    elements: slice  # of the plane
    inside: slice  # of the tensor that holds [start, end)
    runs: slice
    run: int  # elements of each


def _pieces(start: int, end: int, numel: int) -> Iterator[_Piece]:
    """[start, end) in pieces of whole runs; a shorter last run is a piece of its own."""
    if start % QUANT_BLOCK or (end % QUANT_BLOCK and end != numel):
        raise AssertionError(f"elements [{start}, {end}) of {numel} cut a run of {QUANT_BLOCK}")
    whole = end - end % QUANT_BLOCK
    for low in range(start, whole, PIECE):
        high = min(low + PIECE, whole)
        runs = slice(low // QUANT_BLOCK, high // QUANT_BLOCK)
        yield _Piece(slice(low, high), slice(low - start, high - start), runs, QUANT_BLOCK)
    if whole < end:
        last = whole // QUANT_BLOCK
        yield _Piece(slice(whole, end), slice(whole - start, end - start), slice(last, last + 1), end - whole)


def _largest(sizes: torch.Tensor, run: int, which: str) -> torch.Tensor:
    """The scale of each run. `amax` hands a NaN on, so that looking at the scales is enough."""
    scales = sizes.view(-1, run).amax(1)
    if not math.isfinite(float(scales.amax())):
        raise NonFiniteMoment(which=which)
    return scales.clamp_(min=SMALLEST_SCALE)


def _fourth_root_of_share(sizes: torch.Tensor, scales: torch.Tensor, run: int) -> torch.Tensor:
    """In place. Square roots and divisions round as IEEE 754 asks, on every machine."""
    sizes.view(-1, run).div_(scales[:, None])
    return sizes.sqrt_().sqrt_()


def _rows(scales: torch.Tensor) -> torch.Tensor:
    """Which row of thresholds each run takes: another one nearly always when its scale has changed."""
    return (scales.view(torch.int32) * _HASH).bitwise_right_shift_(_HASH_SHIFT).bitwise_and_(THRESHOLD_ROWS - 1)


@cache
def _thresholds() -> torch.Tensor:
    """Evenly spread over (0, 1) along both dimensions. Shape: [THRESHOLD_ROWS, QUANT_BLOCK] fp32."""
    spread = torch.arange(THRESHOLD_ROWS * QUANT_BLOCK, dtype=torch.float64).mul_(_GOLDEN).remainder_(1.0)
    return spread.clamp_(MARGIN, 1.0 - MARGIN).float().view(THRESHOLD_ROWS, QUANT_BLOCK)


def _store(
    codes: torch.Tensor, dtype: torch.dtype, scales: torch.Tensor, packed: torch.Tensor, piece: _Piece, numel: int
) -> None:
    packed[piece.elements].view(dtype).copy_(codes)
    _scales(packed, numel)[piece.runs] = scales


def _scales(packed: torch.Tensor, numel: int) -> torch.Tensor:
    return packed[_scales_at(numel) : packed_bytes(numel)].view(torch.float32)


def _scales_at(numel: int) -> int:
    return -(-numel // _SCALE_BYTES) * _SCALE_BYTES
