"""Weight gradients on a CPU: the product of a transpose, whose operand is laid out anew where that pays.

In bf16 and with AMX, oneDNN multiplies a transposed operand at half to two thirds of the speed of another, however
wide the product. Laid out once, with rows that don't all begin in the same cache set, it is like any other; the copy
takes as long as a few hundred columns of the product. Without AMX (AVX-512 on Zen 4) a transpose costs 2 to 8% of a
product, and the copy as much.
"""

import torch

ENOUGH_COLUMNS = 1280
"""Columns of the product from which on the copy pays: with 768 it costs what it gains, with 2,048 the whole takes two
thirds of the time (512 to 8,192 rows summed)."""
MOST_COPIED = 32 << 20
"""Elements laid out anew at once."""
_ROWS_AT_ONCE = 64
"""Rows of the source copied by one call: what all threads read at once stays in their caches."""
_PADDING = 32
"""Elements behind each row: without them, rows of a power of two lie in the same sets of the caches."""
_HAS_AMX = torch.cpu._is_amx_tile_supported()


def multiply_transposed(a_KM: torch.Tensor, b_KN: torch.Tensor, out_MN: torch.Tensor) -> None:
    """`out` = a^T b, summed as torch's own product does. Shapes: a [K, M], b [K, N], out [M, N] of any dtype."""
    rows, columns = out_MN.shape
    pays = _HAS_AMX and a_KM.device.type == "cpu" and a_KM.dtype == torch.bfloat16 and columns >= ENOUGH_COLUMNS
    if not pays:
        _multiply_into(out_MN, a_KM.t(), b_KN)
        return
    most = max(1, MOST_COPIED // a_KM.shape[0])
    for start in range(0, rows, most):
        part = slice(start, min(start + most, rows))
        _multiply_into(out_MN[part], _laid_out(a_KM[:, part]), b_KN)


def _laid_out(a_KM: torch.Tensor) -> torch.Tensor:
    """A copy of the transpose. Shape: [M, K]."""
    count = a_KM.shape[0]
    out_MK = a_KM.new_empty(a_KM.shape[1], count + _PADDING)[:, :count]
    for start in range(0, count, _ROWS_AT_ONCE):
        part = slice(start, min(start + _ROWS_AT_ONCE, count))
        out_MK[:, part].copy_(a_KM[part].t())
    return out_MK


def _multiply_into(out_MN: torch.Tensor, a_MK: torch.Tensor, b_KN: torch.Tensor) -> None:
    if out_MN.dtype == a_MK.dtype:
        torch.mm(a_MK, b_KN, out=out_MN)
    else:
        out_MN.copy_(torch.mm(a_MK, b_KN))
