"""Random weights as the model's own code makes them, one stage at a time: memory never holds the model twice."""

from collections.abc import Mapping

import torch
from torch import nn

from horizon_app.engine.errors import UnsupportedModel
from horizon_app.engine.memory.geometry import Parameter
from horizon_app.engine.model.discovery import Discovered, uncomputed_buffers
from horizon_app.engine.model.weights import Write


@torch.no_grad()
def initialise(found: Discovered, parameters: Mapping[str, Parameter], write: Write, seed: int) -> None:
    """Hand fresh random weights of each of `parameters` (by name) to `write`; the same seed gives the same weights.

    Call before the model's modules are replaced. Raises UnsupportedModel where buffers have to come from a checkpoint.
    """
    stored = uncomputed_buffers(found.causal)
    if stored:
        raise UnsupportedModel(f"{stored[0]} can't be computed from the config: the model needs pretrained weights")
    torch.manual_seed(seed)
    inside = {id(module) for layer in found.layers for module in layer.modules()}
    units: list[tuple[str, list[tuple[str, nn.Module]]]] = []
    for i, layer in enumerate(found.layers):
        units.append((f"{found.layers_name}.{i}.", list(layer.named_modules())))
    for name, module in found.causal.named_modules():
        if id(module) not in inside:
            units.append((f"{name}." if name else "", [("", module)]))
    for prefix, modules in units:
        _initialise_unit(found, prefix, modules, parameters, write)


def _initialise_unit(
    found: Discovered, prefix: str, modules: list[tuple[str, nn.Module]],
    parameters: Mapping[str, Parameter], write: Write,
) -> None:  # fmt: skip
    meta: list[tuple[nn.Module, str, nn.Parameter, str]] = []
    for path, module in modules:
        for key, parameter in module.named_parameters(recurse=False):
            full = prefix + (f"{path}." if path else "") + key
            if full in parameters:
                meta.append((module, key, parameter, full))
                module._parameters[key] = nn.Parameter(torch.zeros(parameter.shape))
    for _, module in reversed(modules):  # children first, as transformers does
        found.causal._init_weights(module)
    for module, key, parameter, full in meta:
        write(parameters[full], module._parameters[key])  # type: ignore[arg-type]
        module._parameters[key] = parameter
