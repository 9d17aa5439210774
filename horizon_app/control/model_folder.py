"""Reads what a model's folder tells without loading it: config.json, the tokenizer, the headers of safetensors files.

Runs no code of the model and opens no pickled file.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from horizon_app.control.known_models import causal_models
from horizon_app.control.weight_files import Header, Unreadable, read_headers, read_json
from horizon_app.planning.facts import ModelFacts
from horizon_app.planning.model_config import config_faults, recurrent_layers, text_config
from horizon_app.planning.stored_weights import embedding_rows, stored_faults

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
_CAUSAL = ("ForCausalLM", "LMHeadModel", "LMHead")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Weights:
    tensors: Mapping[str, Header]
    num_bytes: int

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for _, shape in self.tensors.values())

    @property
    def dtype(self) -> str | None:
        """The one that holds most elements."""
        sizes: dict[str, int] = {}
        for dtype, shape in self.tensors.values():
            sizes[dtype] = sizes.get(dtype, 0) + math.prod(shape)
        return max(sizes, key=lambda dtype: sizes[dtype]).lower() if sizes else None

    @property
    def widest_row(self) -> tuple[str, int] | None:
        rows = {name: math.prod(shape[1:]) for name, (_, shape) in self.tensors.items() if len(shape) > 1}
        return max(rows.items(), key=lambda row: row[1]) if rows else None


def is_model_folder(folder: Path) -> bool:
    """Whether a folder looks like a checkpoint."""
    return (folder / "config.json").is_file()


def read_model_facts(folder: Path) -> ModelFacts:
    """Everything that the folder tells; what is wrong with it stands in the facts and is not raised."""
    try:
        config = read_json(folder / "config.json")
        obstacle = "; ".join([*_class_faults(config), *config_faults(config)])
    except Unreadable as error:
        config, obstacle = {}, f"{error}; without its model_type nobody can tell what model it is"
    text = text_config(config)
    weights, weights_obstacle = None, ""
    try:
        tensors, num_bytes = read_headers(folder)
        weights = _Weights(tensors=tensors, num_bytes=num_bytes)
        weights_obstacle = "; ".join(stored_faults(text, tensors))
    except Unreadable as error:
        weights_obstacle = str(error)
    return ModelFacts(
        model_type=_text(config, "model_type"),
        architecture=_architecture(config),
        layers=_number(text, "num_hidden_layers", "n_layer", "num_layers"),
        dtype=weights.dtype if weights else _text(config, "dtype", "torch_dtype"),
        parameters=weights.parameters if weights else estimate_parameters(text),
        weight_bytes=weights.num_bytes if weights else 0,
        has_weights=weights is not None,
        has_tokenizer=any((folder / name).is_file() for name in _TOKENIZER_FILES),
        largest_token_id=_largest_token_id(folder / "tokenizer.json"),
        embedding_rows=embedding_rows(text, weights.tensors if weights else {}),
        widest_row=weights.widest_row if weights else _widest_row(text),
        recurrent_layers=recurrent_layers(text),
        obstacle=obstacle,
        weights_obstacle=weights_obstacle,
    )


def estimate_parameters(config: Mapping[str, Any]) -> int | None:
    """Elements of all weights of the usual dense decoders, from the config alone; None where it does not say enough."""
    width = _number(config, "hidden_size", "n_embd")
    layers = _number(config, "num_hidden_layers", "n_layer", "num_layers")
    words = _number(config, "vocab_size")
    heads = _number(config, "num_attention_heads", "n_head")
    experts = ("num_experts", "num_local_experts", "n_routed_experts")
    if not (width and layers and words and heads) or _number(config, *experts):
        return None
    inner = _number(config, "intermediate_size", "n_inner") or 4 * width
    head = _number(config, "head_dim") or width // heads
    kv_heads = _number(config, "num_key_value_heads") or heads
    if config.get("model_type") == "gpt2":
        positions = _number(config, "n_positions") or 1024
        layer = 4 * width * width + 2 * width * inner + 9 * width + inner
        return layers * layer + (words + positions) * width + 2 * width
    layer = 2 * width * heads * head + 2 * width * kv_heads * head + 3 * width * inner + 2 * width
    copies = 1 if config.get("tie_word_embeddings") else 2
    return layers * layer + copies * words * width + width


def _class_faults(config: Mapping[str, Any]) -> list[str]:
    """Why AutoModelForCausalLM makes nothing of it that can be trained."""
    kind, architecture, known = config.get("model_type"), _architecture(config), causal_models()
    if isinstance(kind, str) and known and kind not in known:
        if config.get("auto_map"):
            return [
                f"model_type {kind} is no code of transformers but of the model's own folder (auto_map), and code that "
                "comes with a model is never run"
            ]
        nested = text_config(config).get("model_type")
        hint = (
            f"; its text_config is a {nested}: take that model's own checkpoint" if nested not in (kind, None) else ""
        )
        return [f"model_type {kind} is no causal language model that the installed transformers knows{hint}"]
    if config.get("auto_map") and kind is None:
        return ["config.json names code inside of the model's folder (auto_map), which is never run"]
    if architecture is None or architecture.endswith(_CAUSAL) or architecture == known.get(str(kind)):
        return []
    if architecture.endswith("ForConditionalGeneration") and known:
        return []  # a wrapper, whose language model is made
    return [f"the architecture {architecture} (model_type {kind}) is not a causal language model"]


@lru_cache(maxsize=256)
def _read_token_ids(path: Path, _mtime_ns: int, _size: int) -> int | None:
    """The largest id, as the file was at that time."""
    try:
        content = read_json(path)
        words = content["model"]["vocab"]
        ids = [*cast(dict[str, int], words).values()] if isinstance(words, dict) else [len(words) - 1]
        ids += [int(entry["id"]) for entry in content.get("added_tokens") or ()]
        return max(ids, default=None)
    except (Unreadable, KeyError, TypeError, ValueError, AttributeError):
        return None


def _largest_token_id(path: Path) -> int | None:
    """The largest id that a tokenizer gives, as far as its file tells."""
    try:
        now = path.stat()
    except OSError:
        return None
    return _read_token_ids(path, now.st_mtime_ns, now.st_size)


def _architecture(config: Mapping[str, Any]) -> str | None:
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


def _widest_row(config: Mapping[str, Any]) -> tuple[str, int] | None:
    sizes = [_number(config, "intermediate_size", "n_inner"), _number(config, "hidden_size", "n_embd")]
    known = [size for size in sizes if size]
    return ("the widest layer", max(known)) if known else None


def _number(config: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _text(config: Mapping[str, Any], *keys: str) -> str | None:
    return next((config[key] for key in keys if isinstance(config.get(key), str)), None)
