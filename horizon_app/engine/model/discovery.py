"""Finds the stages of a causal language model: embeddings, decoder layers, head. Builds it on the meta device.

No memory is taken for weights here: parameters stay on meta, only buffers (rotary frequencies) become real.
"""

import inspect
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.pytorch_utils import Conv1D

from horizon_app.engine.errors import UnsupportedModel
from horizon_app.engine.memory.geometry import ParameterFacts, Use
from horizon_app.planning.model_config import config_faults, recurrent_layers

CONSTRUCTOR_FAULTS = (
    AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, ZeroDivisionError,
)  # fmt: skip
"""A model's constructor takes its config's numbers as they are, and fails in its own ways on wrong ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovered:
    """A model on the meta device and where its stages are."""

    causal: PreTrainedModel
    base: nn.Module
    layers: nn.ModuleList
    layers_name: str  # path of the module list from the causal model
    head: nn.Module
    head_name: str
    tied: bool  # the head's weight is the token embedding's
    takes_positions: bool  # whether the base model is told positions, which keep packed samples apart
    recurrent: str  # what carries one packed sample into the next all the same; empty where nothing does

    @property
    def num_layers(self) -> int:
        """Number of decoder layers."""
        return len(self.layers)

    @property
    def aliases(self) -> dict[str, str]:
        """The name under which checkpoints hold a tied head: its embedding's."""
        if not self.tied:
            return {}
        embedding = self.causal.get_input_embeddings()
        name = next(path for path, module in self.causal.named_modules() if module is embedding)
        return {f"{self.head_name}.weight": f"{name}.weight"}


def load_config(model_dir: Path) -> PretrainedConfig:
    """The model's config.json. Raises UnsupportedModel where no run can be made of it, naming the field."""
    try:
        stored = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
        faults = config_faults(stored) or _unknown_kind(stored["model_type"])
    except (OSError, ValueError, AttributeError, RecursionError) as failure:
        raise UnsupportedModel(f"{model_dir / 'config.json'} can't be read: {failure}") from failure
    if faults:
        raise UnsupportedModel(f"{model_dir}: {'; '.join(faults)}")
    try:
        return AutoConfig.from_pretrained(model_dir, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, StrictDataclassError) as failure:
        raise UnsupportedModel(f"{model_dir}: {' '.join(str(failure).split())}") from failure


def _unknown_kind(model_type: str) -> list[str]:
    if model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return []
    return [f"model_type {model_type} is no causal language model that transformers knows"]


def build_meta(config: PretrainedConfig) -> PreTrainedModel:
    """The causal LM of `config`, parameters on meta, buffers real. Raises UnsupportedModel."""
    model = None
    for attention in ("sdpa", "eager"):
        try:
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(
                    config, attn_implementation=attention, dtype=torch.float32, trust_remote_code=False
                )
            break
        except CONSTRUCTOR_FAULTS as e:
            if attention == "eager" or "attention" not in str(e):
                raise UnsupportedModel(f"no model can be built from config.json: {type(e).__name__}: {e}") from e
    if model is None:
        raise AssertionError("one of the attention implementations was tried last and raised")
    _compute_buffers(model)
    model.train()
    return model


def stored_buffers(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Copies of the buffers that belong to a checkpoint. Call before the model's modules are replaced."""
    stored = model.state_dict().keys()
    return {name: buffer.clone() for name, buffer in model.named_buffers() if name in stored}


def uncomputed_buffers(model: PreTrainedModel) -> list[str]:
    """Stored buffers that the config does not say: a checkpoint has to hold them."""
    return [name for name, buffer in model.named_buffers() if buffer.is_floating_point() and _has_nan(buffer)]


def discover(model: PreTrainedModel) -> Discovered:
    """Find base model, decoder layers and head. Raises UnsupportedModel with what was looked for."""
    base = model.base_model
    if base is model:
        raise UnsupportedModel(f"{type(model).__name__} has no base model under {model.base_model_prefix!r}")
    text = model.config.get_text_config()
    unsaid = [name for name in ("num_hidden_layers", "hidden_size", "vocab_size") if not hasattr(text, name)]
    if unsaid:
        raise UnsupportedModel(f"{type(model).__name__}: its config does not say {', '.join(unsaid)}")
    count = text.num_hidden_layers
    candidates = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == count and any(True for _ in module.parameters())
    ]
    if not candidates:
        raise UnsupportedModel(f"{type(model).__name__}: no list of {count} decoder layers found")
    name, layers = min(candidates, key=lambda item: item[0].count("."))
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise UnsupportedModel(f"{type(model).__name__}: no linear LM head found")
    head_name = next(path for path, module in model.named_modules() if module is head)
    embedding = model.get_input_embeddings()
    if not isinstance(embedding, nn.Embedding):
        raise UnsupportedModel(f"{type(model).__name__}: its input embedding is a {type(embedding).__name__}")
    return Discovered(
        causal=model, base=base, layers=layers, layers_name=name, head=head, head_name=head_name,
        tied=embedding.weight is head.weight, takes_positions=_takes_positions(base), recurrent=_recurrent(model, base),
    )  # fmt: skip


def stage_parameters(found: Discovered) -> list[tuple[str, list[ParameterFacts]]]:
    """Every stage with its parameters, small ones first, then in order of registration.

    Parameters outside of the layers belong to the embedding stage where they are registered before the layers, else
    to the head. A tied weight is one parameter, of the head.
    """
    prefix = found.layers_name + "."
    uses = _uses(found)
    head_weight = found.head_name + ".weight"
    stages: list[tuple[str, list[ParameterFacts]]] = [("embed", [])]
    stages += [(f"L{i}", []) for i in range(found.num_layers)] + [("head", [])]
    passed_layers = False
    seen: set[int] = set()
    for name, parameter in found.causal.named_parameters(remove_duplicate=False):
        if parameter is found.head.weight and name != head_weight:
            continue
        if id(parameter) in seen:
            raise UnsupportedModel(f"{name} shares its memory with another parameter; only a tied LM head may")
        seen.add(id(parameter))
        if name.startswith(prefix):
            passed_layers = True
            stage = 1 + int(name.removeprefix(prefix).split(".")[0])
        else:
            stage = found.num_layers + 1 if passed_layers or name == head_weight else 0
        shape = tuple(parameter.shape)
        stages[stage][1].append(
            ParameterFacts(name=name, shape=shape, use=uses.get(name, Use.GATHER), decay=len(shape) > 1)
        )
    order = {True: 0, False: 1}
    for _, parameters in stages:
        parameters.sort(key=lambda p: (len(p.shape) > 1, order[p.use is Use.GATHER]))
    return stages


def _takes_positions(base: nn.Module) -> bool:
    return "position_ids" in inspect.signature(base.forward).parameters


def _recurrent(model: PreTrainedModel, base: nn.Module) -> str:
    """Why restarting positions do not keep packed samples apart; empty where they do."""
    if not _takes_positions(base):
        return f"a {type(model).__name__} is not told where samples begin"
    kinds = recurrent_layers({"layer_types": getattr(model.config.get_text_config(), "layer_types", None)})
    return f"layers of the kind {kinds} carry state from token to token" if kinds else ""


def _uses(found: Discovered) -> dict[str, Use]:
    uses: dict[str, Use] = {}
    for name, module in found.causal.named_modules():
        if type(module) is nn.Linear:
            uses[f"{name}.weight"] = Use.LINEAR
        elif type(module) is Conv1D:
            uses[f"{name}.weight"] = Use.CONV1D
        elif isinstance(module, nn.Embedding) and not name.startswith(found.layers_name + "."):
            uses[f"{name}.weight"] = Use.LOOKUP
    return uses


@torch.no_grad()
def _compute_buffers(model: PreTrainedModel) -> None:
    """Give every buffer memory, then let the model's own initialisation compute what is not in a checkpoint.

    Float buffers start as NaN: one that stays so was not computed, and if it is not in checkpoints either, the model
    would train on garbage.
    """
    for name, module in model.named_modules():
        meta = {key: b for key, b in module.named_buffers(recurse=False) if b.is_meta}
        if not meta:
            continue
        for key, buffer in meta.items():
            real = torch.zeros_like(buffer, device="cpu")
            persistent = key not in module._non_persistent_buffers_set
            module.register_buffer(key, real.fill_(float("nan")) if real.is_floating_point() else real, persistent)
        model._init_weights(module)
        for key in meta:
            value = module.get_buffer(key)
            stored = key not in module._non_persistent_buffers_set
            if not stored and value.is_floating_point() and _has_nan(value):
                raise UnsupportedModel(f"{type(model).__name__}: buffer {name}.{key} can't be computed from the config")


def _has_nan(buffer: torch.Tensor) -> bool:
    return bool(torch.isnan(buffer).any())
