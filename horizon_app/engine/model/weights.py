"""Weights in: a checkpoint's tensors to the host pool's masters, piece by piece, after making sure that all fit.

Never holds the model twice, nor a whole tensor where its rows can be taken one after the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from transformers import PretrainedConfig

from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.memory.geometry import Parameter
from horizon_app.engine.model.discovery import Discovered, uncomputed_buffers
from horizon_app.engine.model.key_conversion import Assembly, Conversion, plan_conversion
from horizon_app.engine.model.stored_tensors import BITS, StoredTensors

PIECE_BYTES = 16 << 20
"""Bytes of a stored tensor that are copied at a time."""
LISTED = 5
"""Tensors that a refusal names, of each kind of fault."""


class Write(Protocol):
    """Takes weights."""

    def __call__(self, parameter: Parameter, values: torch.Tensor, start: int = 0) -> None:
        """Set the parameter's elements from `start` on. Shape of values: any, in the parameter's order."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightPlan:
    """What of a checkpoint goes where. All of it fits; no value has been read."""

    found: Discovered
    stored: StoredTensors
    conversion: Conversion


def plan_weights(model_dir: Path, found: Discovered, names: Sequence[str]) -> WeightPlan:
    """Find the tensors for all parameters, by their `names` in the model.

    Call before the model's modules are replaced. Raises WeightsUnusable that tells of every fault: tensors that are
    missing, unknown, of another shape, quantised, or cut short.
    """
    refuse_quantised(found.causal.config)
    stored = StoredTensors(model_dir)
    conversion = plan_conversion(found.causal, {name: tensor.shape for name, tensor in stored.tensors.items()})
    plan = WeightPlan(found=found, stored=stored, conversion=conversion)
    faults = [*_missing(plan, names), *_unknown(plan), *conversion.failures, *_misshapen(plan), *_not_floats(plan)]
    faults = faults or list(_tied_apart(plan))
    if faults:
        raise WeightsUnusable(f"{model_dir}: {'; '.join(faults)}")
    return plan


def read_weights(plan: WeightPlan, parameters: Mapping[str, Parameter], write: Write) -> None:
    """Hand every parameter's values to `write`, and put stored buffers into the model. Raises WeightsUnusable."""
    second_names = {alias: name for name, alias in plan.found.aliases.items()}
    buffers = dict(plan.found.causal.named_buffers())
    written: set[str] = set()
    for assembly in plan.conversion.assemblies:
        if second_names.get(assembly.target, assembly.target) in written:
            continue  # a tied weight that is stored twice
        for name, values, start in _values(plan, assembly):
            name = second_names.get(name, name)
            if name in parameters:
                write(parameters[name], values, start)
                written.add(name)
            elif name in buffers:
                buffers[name].view(-1)[start : start + values.numel()] = values.reshape(-1)
    plan.stored.close()


def refuse_quantised(config: PretrainedConfig) -> None:
    """Raise WeightsUnusable where the config says that the stored weights are quantised."""
    quantisation = getattr(config, "quantization_config", None)
    if quantisation is not None:
        method = quantisation.get("quant_method") if isinstance(quantisation, dict) else quantisation
        raise WeightsUnusable(
            f"config.json has a quantization_config (quant_method {method}): the weights are quantised, and only "
            "floating-point ones are trained; take the model's unquantised checkpoint"
        )


def _values(plan: WeightPlan, assembly: Assembly) -> Iterator[tuple[str, torch.Tensor, int]]:
    """Name, values and first element of what an assembly makes, in pieces."""
    if assembly.converter is None:
        for values, start in _rows(plan.stored, assembly.stored_name):
            yield assembly.target, values, start
        return
    for piece in assembly.pieces():
        made = assembly.make(plan.found.causal, plan.stored.read, piece)
        for name, values in made.items():
            yield name, values, piece.first_row * values[0].numel() if values.dim() else 0


def _rows(stored: StoredTensors, name: str) -> Iterator[tuple[torch.Tensor, int]]:
    """A stored tensor in pieces of at most `PIECE_BYTES`, or a row, each with its first element."""
    tensor = stored.tensors[name]
    if not tensor.shape or not tensor.numel:
        yield stored.read(name), 0
        return
    width = tensor.numel // tensor.shape[0]
    step = max(1, PIECE_BYTES * 8 // (width * BITS.get(tensor.dtype, 64)))
    for start in range(0, tensor.shape[0], step):
        yield stored.read_rows(name, start, min(start + step, tensor.shape[0])), start * width


def _missing(plan: WeightPlan, names: Sequence[str]) -> Iterator[str]:
    made = plan.conversion.makers()
    wanted = [*names, *uncomputed_buffers(plan.found.causal)]
    missing = [name for name in wanted if name not in made and plan.found.aliases.get(name) not in made]
    if missing:
        yield f"{len(missing)} of {len(wanted)} tensors are missing, first {_listed(missing)}"


def _unknown(plan: WeightPlan) -> Iterator[str]:
    unknown = plan.conversion.unknown
    if unknown:
        yield (
            f"{len(unknown)} stored tensors are no part of a {type(plan.found.causal).__name__}, first "
            f"{_listed(unknown)}"
        )


def _misshapen(plan: WeightPlan) -> Iterator[str]:
    wanted = plan.found.causal.state_dict()
    wrong: list[str] = []
    for assembly in plan.conversion.assemblies:
        made_of = f" (made of {assembly.num_stored} stored tensors)" if assembly.num_stored > 1 else ""
        for name, shape in assembly.shapes.items():
            if name not in wanted:
                wrong.append(f"{name}{made_of} is no part of the model")
            elif shape != tuple(wanted[name].shape):
                asked = list(wanted[name].shape)
                wrong.append(f"{name} has shape {list(shape)}{made_of}, the config asks for {asked}")
    if wrong:
        yield f"{len(wrong)} tensors have another shape: {_listed(wrong)}"


def _not_floats(plan: WeightPlan) -> Iterator[str]:
    parameters = dict(plan.found.causal.named_parameters(remove_duplicate=False))
    wrong = [
        f"{name} holds {plan.stored.tensors[name].dtype}"
        for assembly in plan.conversion.assemblies if any(target in parameters for target in assembly.shapes)
        for group in assembly.sources.values() for name in group if plan.stored.tensors[name].dtype not in BITS
    ]  # fmt: skip
    if wrong:
        yield (
            f"{len(wrong)} tensors are quantised, only {', '.join(BITS)} are trained from: {_listed(wrong)}; take the "
            "model's unquantised checkpoint"
        )


def _tied_apart(plan: WeightPlan) -> Iterator[str]:
    """A tied weight that is stored twice has to be the same both times."""
    makers = plan.conversion.makers()
    for name, alias in plan.found.aliases.items():
        if name in makers and alias in makers:
            first, second = makers[name].stored_name, makers[alias].stored_name
            pairs = zip(_rows(plan.stored, first), _rows(plan.stored, second), strict=True)
            if not all(torch.equal(one, other) for (one, _), (other, _) in pairs):
                yield (
                    f"config.json ties the LM head to the embedding, but {first} and {second} hold different values; "
                    "set tie_word_embeddings to false in config.json"
                )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (", ..." if len(names) > LISTED else "")
