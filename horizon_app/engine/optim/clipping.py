"""The global gradient norm and the factor that clips it."""

import math

import torch


def global_norm(squares: torch.Tensor) -> float:
    """Norm of the whole gradient from the squared norms of its parts (fp64), summed in their order."""
    return math.sqrt(float(squares.sum()))


def clip_factor(norm: float, max_norm: float) -> float:
    """What gradients are multiplied by, as `torch.nn.utils.clip_grad_norm_` defines it; 1 where `max_norm` is 0."""
    if max_norm == 0.0:
        return 1.0
    return min(1.0, max_norm / (norm + 1e-6))
