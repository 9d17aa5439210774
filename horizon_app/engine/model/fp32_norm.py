"""Norms in fp32, whatever the rest computes in: their sums of squares are beyond what 16 bits hold."""

from typing import Any

import torch
from torch import nn


class Fp32Norm(nn.Module):
    """A norm computed in fp32, weight included, with the result in the dtype of its input."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """norm(x.float()) in x's dtype."""
        return self.norm(x.float(), *args, **kwargs).to(x.dtype)


def wrap_norms(model: nn.Module) -> None:
    """Have every norm of `model` computed in fp32, in place."""
    for name, module in list(model.named_modules()):
        if _is_norm(module):
            parent, _, key = name.rpartition(".")
            model.get_submodule(parent)._modules[key] = Fp32Norm(module)


def _is_norm(module: nn.Module) -> bool:
    """Norm layers of transformers carry the word in their class name; all of their parameters are vectors."""
    parameters = list(module.parameters(recurse=False))
    return "Norm" in type(module).__name__ and not list(module.children()) and all(p.dim() == 1 for p in parameters)
