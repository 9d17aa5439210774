"""How a GGUF file scales rotary positions, as a Hugging Face config says it; transformers does not take it over.

llama.cpp divides each rotary frequency by a factor. Its files hold the factors themselves (Llama 3.1's worked out, or
the two lists of LongRoPE), or the name of a rule.
"""

from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from horizon_app.engine.errors import UnsupportedModel
from horizon_app.engine.model.gguf_header import GgufHeader

_FACTORS, _LONG, _SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"


def scale_positions(model: PreTrainedModel, path: Path, header: GgufHeader) -> None:
    """Give `model` the scaled positions of the GGUF file it was read from. Raises UnsupportedModel."""
    scaling = rope_scaling(path, header)
    text: Any = model.config.get_text_config()
    if not scaling:
        return
    before = getattr(text, "rope_parameters", None)
    if not isinstance(before, dict) or any(isinstance(value, dict) for value in before.values()):
        raise UnsupportedModel(f"{path}: a {type(model).__name__} has no place for its scaled positions {scaling}")
    text.rope_parameters = {**before, **scaling}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child).__name__.endswith("RotaryEmbedding"):
                setattr(module, name, type(child)(text))


def rope_scaling(path: Path, header: GgufHeader) -> dict[str, Any]:
    """The rope_parameters that say what the file says; empty where it does not scale. Raises WeightsUnusable."""
    prefix = f"{header.architecture}.rope.scaling."
    told = {key.removeprefix(prefix): value for key, value in header.metadata.items() if key.startswith(prefix)}
    context = header.metadata.get(f"{header.architecture}.context_length")
    original = told.get("original_context_length", context)
    names = {tensor.name for tensor in header.tensors}
    if _FACTORS in names:  # the same whatever the length of the text
        factors = header.vector(path, _FACTORS)
        return {
            "rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0,
            "original_max_position_embeddings": original,
        }  # fmt: skip
    if {_LONG, _SHORT} <= names:
        attention = {"attention_factor": told["attn_factor"]} if "attn_factor" in told else {}
        return {
            "rope_type": "longrope", "short_factor": header.vector(path, _SHORT),
            "long_factor": header.vector(path, _LONG), "original_max_position_embeddings": original, **attention,
        }  # fmt: skip
    kind = told.get("type", "none")
    if kind == "linear":
        return {"rope_type": "linear", "factor": told["factor"]}
    if kind == "yarn":
        return {"rope_type": "yarn", "factor": told["factor"], "original_max_position_embeddings": original}
    return {}
