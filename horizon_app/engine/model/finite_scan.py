"""Looks for stored weights that are NaN or infinite, through the memory map: one piece of one tensor at a time."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from horizon_app.engine.model.stored_tensors import StoredTensors

PIECE = 1 << 20
"""Elements looked at together: their marks stay in the processor's cache."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NonFiniteTensor:
    """A stored tensor that holds values which are no numbers."""

    name: str
    count: int  # how many of its elements are not finite
    first_index: tuple[int, ...]
    first: str  # nan, inf or -inf


def scan_weights(folder: Path) -> tuple[NonFiniteTensor, ...]:
    """Every stored tensor that holds non-finite values, by name. Raises WeightsUnusable."""
    stored = StoredTensors(folder)
    faulty = [scan_tensor(name, stored.read(name)) for name in stored.tensors]  # file after file
    stored.close()
    return tuple(sorted((tensor for tensor in faulty if tensor), key=lambda tensor: tensor.name))


def scan_tensor(name: str, tensor: torch.Tensor) -> NonFiniteTensor | None:
    """How many elements are not finite, and which is the first; None where all are, as in tensors of whole numbers."""
    if not tensor.is_floating_point():
        return None
    count, first = 0, -1
    flat = tensor.reshape(-1)
    for start in range(0, flat.numel(), PIECE):
        piece = flat[start : start + PIECE]
        if piece.element_size() == 1:
            piece = piece.float()  # of 8-bit formats torch can't tell
        bad = piece.isfinite().logical_not_()
        if not bad.any():
            continue
        count += int(bad.count_nonzero())
        first = start + int(bad.nonzero()[0]) if first < 0 else first
    if not count:
        return None
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(first), tensor.shape))
    return NonFiniteTensor(name=name, count=count, first_index=index, first=_word(float(flat[first])))


def _word(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"
