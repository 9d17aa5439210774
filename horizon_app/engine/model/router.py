"""The router loss of mixtures of experts, which spans all layers: taken out of layers that run one at a time.

A layer's routers leave their logits here. The model's own code makes the loss of all of them, and its gradient goes
back into each layer beside that of the hidden states.
"""

from typing import Any

import torch
from transformers.utils.output_capturing import OutputRecorder

from horizon_app.engine.errors import UnsupportedModel
from horizon_app.engine.model.discovery import Discovered

_WEIGHTS = ("router_aux_loss_coef", "aux_loss_coef")


class RouterTap:
    """Catches the router logits of the layer that runs."""

    def __init__(self, found: Discovered) -> None:
        """Listen to the routers, where the config asks for their loss. Raises UnsupportedModel where none is found."""
        self._caught: list[torch.Tensor] = []
        self.weight = _weight(found)  # of the router loss in the whole loss; 0: the config doesn't ask for it
        if not self.weight:
            return
        recorder = (getattr(found.base, "_can_record_outputs", None) or {}).get("router_logits")
        kind = recorder.target_class if isinstance(recorder, OutputRecorder) else recorder
        index = recorder.index if isinstance(recorder, OutputRecorder) else 0
        routers = [module for layer in found.layers for module in layer.modules() if kind and isinstance(module, kind)]
        if not routers:
            raise UnsupportedModel(
                f"config.json asks for the router loss (output_router_logits), but no routers of a "
                f"{type(found.causal).__name__} are found; set output_router_logits to false"
            )
        for router in routers:
            router.register_forward_hook(lambda _module, _args, output: self._catch(output, index))

    @property
    def listens(self) -> bool:
        """Whether there is a router loss."""
        return self.weight > 0

    def take(self) -> list[torch.Tensor]:
        """What the routers have said since last asked, in order. Shapes: [tokens, experts]."""
        caught, self._caught = self._caught, []
        return caught

    def _catch(self, output: Any, index: int) -> None:
        self._caught.append(output[index] if isinstance(output, tuple) else output)


def _weight(found: Discovered) -> float:
    if not getattr(found.causal.config, "output_router_logits", False):
        return 0.0
    return next((float(getattr(found.causal, name)) for name in _WEIGHTS if hasattr(found.causal, name)), 0.0)
