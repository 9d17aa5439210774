"""What the names, dtypes and shapes of stored tensors say against training them. Plain arithmetic, no files."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
"""Name -> dtype, in safetensors' words, and shape."""

TRAINED_FROM = ("F64", "F32", "F16", "BF16")
_SCALES = ("weight_scale_inv", "weight_scale", "qweight", "qzeros", "g_idx", "absmax", "_scales", "_blocks")
_EMBEDDINGS = (".embed_tokens.weight", ".wte.weight", ".embed_in.weight", ".word_embeddings.weight")
_SQUARE_HEADS = ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "olmo", "olmo2", "smollm3")
"""Families whose q_proj has num_attention_heads x head_dim rows, with head_dim from the hidden size where not given."""
_LISTED = 5


def stored_faults(text: Mapping[str, Any], tensors: Tensors) -> list[str]:
    """What keeps the stored tensors from being trained, as far as a (text) config and headers tell."""
    return [*_quantised(tensors), *_rows(text, tensors), *_head_dim(text, tensors)]


def embedding_rows(text: Mapping[str, Any], tensors: Tensors) -> int | None:
    """Rows of the token embedding: the stored one's, else as the config says."""
    stored = _embedding(tensors)
    rows = tensors[stored][1][0] if stored else text.get("vocab_size")
    return rows if isinstance(rows, int) else None


def _quantised(tensors: Tensors) -> Iterator[str]:
    scales = [name for name in tensors if name.endswith(_SCALES)]
    if scales:
        yield f"{len(scales)} tensors belong to quantised weights, first {', '.join(scales[:_LISTED])}"
    numbers = [
        f"{name} ({dtype})" for name, (dtype, shape) in tensors.items() if len(shape) > 1 and dtype not in TRAINED_FROM
    ]
    if numbers:
        yield f"{len(numbers)} tensors are no plain floating-point numbers, first {', '.join(numbers[:_LISTED])}"


def _rows(text: Mapping[str, Any], tensors: Tensors) -> Iterator[str]:
    name, rows = _embedding(tensors), text.get("vocab_size")
    if name and isinstance(rows, int) and tensors[name][1][0] != rows:
        yield f"{name} has {tensors[name][1][0]} rows, but vocab_size is {rows}"


def _head_dim(text: Mapping[str, Any], tensors: Tensors) -> Iterator[str]:
    """A q_proj of another height than the config implies, with the head_dim that would fit."""
    name = next((name for name in tensors if name.endswith(".self_attn.q_proj.weight")), None)
    heads, width = text.get("num_attention_heads"), text.get("hidden_size")
    if name is None or text.get("model_type") not in _SQUARE_HEADS:
        return
    if not isinstance(heads, int) or not isinstance(width, int) or heads < 1:
        return
    shape = tensors[name][1]
    head_dim = text.get("head_dim")
    implied = (heads * (head_dim if isinstance(head_dim, int) else width // heads), width)
    if shape != implied:
        fix = f"; head_dim {shape[0] // heads} would fit" if shape[0] % heads == 0 and shape[1:] == (width,) else ""
        yield f"{name} has shape {list(shape)}, but the config implies {list(implied)}{fix}"


def _embedding(tensors: Tensors) -> str | None:
    """The token embedding, where exactly one tensor can be it."""
    found = [name for name, (_, shape) in tensors.items() if f".{name}".endswith(_EMBEDDINGS) and math.prod(shape)]
    return found[0] if len(found) == 1 else None
