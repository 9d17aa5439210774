"""Reads what a model's folder tells without loading it: config.json and the headers of safetensors files.

Runs no code of the model and opens no pickled file.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from horizon_app.planning.facts import ModelFacts

_MAX_HEADER_BYTES = 100 << 20
_MAX_JSON_BYTES = 50 << 20
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
_CAUSAL = ("ForCausalLM", "LMHeadModel", "LMHead")
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")


class Unreadable(ValueError):
    """A file of the model can't be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Weights:
    parameters: int
    num_bytes: int
    dtype: str | None
    widest_row: tuple[str, int] | None


def is_model_folder(folder: Path) -> bool:
    """Whether a folder looks like a checkpoint."""
    return (folder / "config.json").is_file()


def read_model_facts(folder: Path) -> ModelFacts:
    """Everything that the folder tells; what is wrong with it stands in the facts and is not raised."""
    try:
        config = _read_json(folder / "config.json")
        obstacle = _obstacle(config)
    except Unreadable as error:
        config, obstacle = {}, str(error)
    weights, weights_obstacle = None, ""
    try:
        weights = _read_weights(folder)
    except Unreadable as error:
        weights_obstacle = str(error)
    return ModelFacts(
        architecture=_architecture(config),
        layers=_number(config, "num_hidden_layers", "n_layer", "num_layers"),
        dtype=weights.dtype if weights else _text(config, "dtype", "torch_dtype"),
        parameters=weights.parameters if weights else estimate_parameters(config),
        weight_bytes=weights.num_bytes if weights else 0,
        has_weights=weights is not None,
        has_tokenizer=any((folder / name).is_file() for name in _TOKENIZER_FILES),
        widest_row=weights.widest_row if weights else _widest_row(config),
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


def _obstacle(config: Mapping[str, Any]) -> str:
    architecture = _architecture(config)
    if config.get("is_encoder_decoder"):
        return f"{architecture or 'the model'} is an encoder-decoder, not a causal language model"
    if config.get("auto_map") and architecture is None:
        return "config.json names code inside of the model's folder, and code that comes with a model is never run"
    if architecture is None:
        return "config.json names no architecture (the key architectures)"
    if not architecture.endswith(_CAUSAL):
        return f"the architecture {architecture} is not a causal language model"
    return ""


def _architecture(config: Mapping[str, Any]) -> str | None:
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise Unreadable(f"{path.name} has more than {_MAX_JSON_BYTES >> 20} MiB")
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise Unreadable(f"the folder has no {path.name}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise Unreadable(f"{path.name} can't be read: {type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise Unreadable(f"{path.name} is not a JSON object")
    return cast(dict[str, Any], content)


def _read_weights(folder: Path) -> _Weights:
    files = _weight_files(folder)
    parameters = num_bytes = 0
    dtypes: dict[str, int] = {}
    widest: tuple[str, int] | None = None
    for path in files:
        for name, (dtype, shape) in read_header(path).items():
            elements = math.prod(shape)
            parameters += elements
            dtypes[dtype] = dtypes.get(dtype, 0) + elements
            row = elements // shape[0] if len(shape) > 1 and shape[0] else 0
            if widest is None or row > widest[1]:
                widest = (name, row)
        num_bytes += path.stat().st_size
    dtype = max(dtypes, key=lambda key: dtypes[key]).lower() if dtypes else None
    return _Weights(parameters=parameters, num_bytes=num_bytes, dtype=dtype, widest_row=widest)


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = _read_json(index).get("weight_map")
        if not isinstance(names, dict):
            raise Unreadable(f"{index.name} has no weight_map")
        shards = sorted({str(name) for name in cast(dict[str, object], names).values()})
        strange = [name for name in shards if Path(name).name != name]
        missing = [name for name in shards if not (folder / name).is_file()]
        if strange or missing:
            raise Unreadable(
                f"{index.name} names {len(strange + missing)} shards that are not there: {(strange + missing)[0]}"
            )
        return [folder / name for name in shards]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    found = sorted(path.name for pattern in _OTHER_WEIGHTS for path in folder.glob(pattern))
    have = f"only {found[0]}, which is not read as it is" if found else "no weights"
    raise Unreadable(f"the folder has {have} (model.safetensors or its shards are needed)")


def read_header(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Tensor name -> dtype and shape of a safetensors file. Raises Unreadable, also where the file is cut short."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length < 2 or length > min(size - 8, _MAX_HEADER_BYTES):
                raise Unreadable(f"{path.name} is not a safetensors file, or cut short at {size} bytes")
            header = json.loads(file.read(length))
        tensors = {
            name: (str(entry["dtype"]), tuple(int(n) for n in entry["shape"]), int(entry["data_offsets"][1]))
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except Unreadable:
        raise
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{path.name} can't be read: {type(error).__name__}: {error}") from error
    promised = 8 + length + max((end for _, _, end in tensors.values()), default=0)
    if promised != size:
        raise Unreadable(
            f"{path.name} has {size} bytes, but its header tells of {promised}: it is cut short or damaged"
        )
    return {name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()}


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
