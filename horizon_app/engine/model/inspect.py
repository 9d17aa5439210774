"""What a checkpoint folder holds, and whether this engine can train it.

From headers, a model on the meta device, and a look at every stored value.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from horizon_app.data.errors import DataError
from horizon_app.data.tokenizer import load_tokenizer
from horizon_app.engine.errors import EngineError
from horizon_app.engine.memory.geometry import ParameterFacts
from horizon_app.engine.model.discovery import Discovered, build_meta, discover, load_config, stage_parameters
from horizon_app.engine.model.finite_scan import NonFiniteTensor, scan_weights
from horizon_app.engine.model.stored_tensors import StoredTensor, StoredTensors
from horizon_app.engine.model.weights import plan_weights
from horizon_app.planning.facts import ModelFacts
from horizon_app.planning.feasibility import tokenizer_fault


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorGroup:
    """Stored tensors that play the same part, over all layers."""

    name: str  # the path of their module, layer numbers as *
    tensors: int
    parameters: int
    dtype: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """A checkpoint folder. None stands for what can't be told."""

    model_type: str | None
    architecture: str | None
    layers: int | None
    parameters: int | None  # elements that are trained; a tied weight counts once
    dtype: str | None
    groups: tuple[TensorGroup, ...]
    tied: bool | None
    embedding_rows: int | None
    tokenizer_size: int | None
    has_chat_template: bool | None
    trainable: bool  # whether a run of it would start
    obstacles: tuple[str, ...]  # why it can't be trained
    nonfinite: tuple[NonFiniteTensor, ...]  # stored tensors with values that a run would stop at


def inspect_model(folder: Path, facts: ModelFacts, rehearse: Callable[[Discovered], None]) -> Inspection:
    """Look into `folder`, whose `facts` are known already, and at every stored value.

    `rehearse` runs the model layer by layer without weights, and raises UnsupportedModel where it can't. What is wrong
    is told in the answer and not raised.
    """
    obstacles = [reason for reason in (facts.obstacle, facts.weights_obstacle) if reason]
    found: Discovered | None = None
    parameters: list[ParameterFacts] = []
    if not facts.obstacle:
        try:
            found = discover(build_meta(load_config(folder)))
            parameters = [parameter for _, stage in stage_parameters(found) for parameter in stage]
            if facts.has_weights:
                plan_weights(folder, found, [parameter.name for parameter in parameters])
            rehearse(found)
        except EngineError as error:
            obstacles.append(" ".join(str(error).split()))
    nonfinite: tuple[NonFiniteTensor, ...] = ()
    if facts.has_weights:
        try:
            nonfinite = scan_weights(folder)
        except EngineError as error:
            obstacles.append(str(error))
    embedding = found.causal.get_input_embeddings() if found else None
    rows = embedding.num_embeddings if isinstance(embedding, nn.Embedding) else None
    # transformers reads the config for the tokenizer's sake too, and fails in the same way.
    size, has_template, trouble = _tokenizer(folder) if found else (None, None, "")
    obstacles += [fault] if (fault := tokenizer_fault(facts)) else []
    obstacles += [trouble] if trouble else []
    return Inspection(
        model_type=facts.model_type, architecture=facts.architecture,
        layers=found.num_layers if found else facts.layers,
        parameters=sum(math.prod(p.shape) for p in parameters) if parameters else facts.parameters, dtype=facts.dtype,
        groups=_groups(folder) if facts.has_weights else (), tied=found.tied if found else None, embedding_rows=rows,
        tokenizer_size=size, has_chat_template=has_template, trainable=not obstacles, obstacles=tuple(obstacles),
        nonfinite=nonfinite,
    )  # fmt: skip


def group_name(tensor: str) -> str:
    """The module that a stored tensor belongs to, the same for all layers.

    `model.layers.3.mlp.up_proj.weight` is of `model.layers.*.mlp`.
    """
    parts = ["*" if re.fullmatch(r"\d+", part) else part for part in tensor.split(".")]
    if "*" in parts:
        return ".".join(parts[: parts.index("*") + 2])
    return ".".join(parts[:-1]) or tensor


def _groups(folder: Path) -> tuple[TensorGroup, ...]:
    """The stored tensors by the module they belong to, the largest first."""
    stored: dict[str, list[StoredTensor]] = {}
    for name, tensor in StoredTensors(folder).tensors.items():
        stored.setdefault(group_name(name), []).append(tensor)
    groups = [
        TensorGroup(
            name=name, tensors=len(tensors), parameters=sum(tensor.numel for tensor in tensors),
            dtype="+".join(sorted({tensor.dtype.lower() for tensor in tensors})),
        )
        for name, tensors in stored.items()
    ]  # fmt: skip
    return tuple(sorted(groups, key=lambda group: (-group.parameters, group.name)))


def _tokenizer(folder: Path) -> tuple[int | None, bool | None, str]:
    """Size, chat template, and why it can't be used."""
    try:
        tokenizer = load_tokenizer(folder)
    except DataError as error:
        return None, None, error.problems[0].message
    return tokenizer.num_tokens, tokenizer.has_chat_template, ""
