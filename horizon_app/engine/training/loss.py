"""Cross-entropy of the next token, summed over trained tokens, in chunks so that all logits never exist at once."""

from typing import Any

import torch
import torch.nn.functional as F

ROWS_AT_ONCE = 128
"""Tokens whose logits are held in fp32 at a time."""


class SummedCrossEntropy(torch.autograd.Function):
    """sum over tokens of -log softmax(logits)[target], in fp32 whatever the logits' dtype.

    The gradient is computed in the forward, while the logits are in cache.
    Shapes: logits_TV [T, V], target_T [T] int64.
    """

    @staticmethod
    def forward(ctx: Any, logits_TV: torch.Tensor, target_T: torch.Tensor, scale: float) -> torch.Tensor:
        """The sum, fp64; its gradient is kept, times `scale`."""
        gradient_TV = torch.empty_like(logits_TV)
        total = torch.zeros((), dtype=torch.float64, device=logits_TV.device)
        for start in range(0, logits_TV.shape[0], ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            log_p = F.log_softmax(logits_TV[rows].float(), dim=-1)
            picked = target_T[rows].unsqueeze(1)
            total -= log_p.gather(1, picked).double().sum()
            p = log_p.exp_()
            p.scatter_add_(1, picked, torch.full_like(picked, -1.0, dtype=p.dtype))
            gradient_TV[rows] = p.mul_(scale)
        ctx.save_for_backward(gradient_TV)
        return total

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradient kept; what flows in from above is taken to be 1."""
        (gradient_TV,) = ctx.saved_tensors
        return gradient_TV, None, None


def summed_cross_entropy(logits_TV: torch.Tensor, target_T: torch.Tensor) -> torch.Tensor:
    """The same sum, to the last bit, where no gradient is wanted."""
    total = torch.zeros((), dtype=torch.float64, device=logits_TV.device)
    for start in range(0, logits_TV.shape[0], ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        log_p = F.log_softmax(logits_TV[rows].float(), dim=-1)
        total -= log_p.gather(1, target_T[rows].unsqueeze(1)).double().sum()
    return total


def chunk_tokens(vocabulary: int, element_bytes: int, budget_bytes: int) -> int:
    """Tokens whose logits fit in `budget_bytes`, at least one; a multiple of `ROWS_AT_ONCE` where possible."""
    tokens = max(1, budget_bytes // (vocabulary * element_bytes))
    return tokens - tokens % ROWS_AT_ONCE if tokens > ROWS_AT_ONCE else tokens
