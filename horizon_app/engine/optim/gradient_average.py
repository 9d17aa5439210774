"""The moving average over gradients, which the optimizer takes in place of the gradient."""

import torch


def average_(average: torch.Tensor, gradient: torch.Tensor, decay: float, step: int, out: torch.Tensor) -> None:
    """Move `average` by the gradient of optimizer step `step` (from 1), and write it, bias-corrected, to `out`.

    average = decay * average + (1 - decay) * gradient; out = average / (1 - decay ** step): an average that starts from
    zero would be too small by that factor. Shapes: all alike, fp32; `out` may be `gradient`.
    """
    average.lerp_(gradient, 1.0 - decay)
    torch.div(average, 1.0 - decay**step, out=out)
