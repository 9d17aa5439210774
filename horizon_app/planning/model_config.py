"""What a model's config.json says against training it, field by field. Plain dictionaries; runs no code of any model.

The same checks serve the server, which may not load torch, and the engine, whose model would fail without naming a
field.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

Config = Mapping[str, Any]

ROPE_NUMBERS: dict[str, tuple[str, ...]] = {
    "default": (), "linear": ("factor",), "dynamic": ("factor",), "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "longrope": (), "su": (), "proportional": (), "mrope": (),
}  # fmt: skip
"""The kinds of scaled rotary positions, and the numbers that each can't do without."""
ROPE_LISTS: dict[str, tuple[str, ...]] = dict.fromkeys(("longrope", "su"), ("short_factor", "long_factor"))
_ROPE_FIELDS = ("rope_parameters", "rope_scaling")
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
_ENCODER_DECODER = "is_encoder_decoder"


def text_config(config: Config) -> Config:
    """The part of a config that describes the language model: itself, or the one nested in it."""
    nested = next((config[name] for name in _TEXT_CONFIGS if isinstance(config.get(name), dict)), None)
    return config if nested is None else cast(Config, nested)


def recurrent_layers(text: Config) -> str:
    """The kinds of layers that carry state from token to token, whatever positions say; empty where there are none."""
    kinds = text.get("layer_types")
    names = {str(kind) for kind in cast(list[Any], kinds)} if isinstance(kinds, list) else set[str]()
    return ", ".join(sorted(name for name in names if not name.endswith("attention") or "linear" in name))


def config_faults(config: Config) -> list[str]:
    """Everything in a config that no run can be made of, naming the field and its value; empty where nothing is."""
    text = text_config(config)
    where = "" if text is config else f"{next(name for name in _TEXT_CONFIGS if config.get(name) is text)}."
    found = [*_kind(config), *_quantisation(config)]
    found += [f"{where}{fault}" for fault in (*_heads(text), *_rope(text), *_windows(text), *_padding(text))]
    return found


def _kind(config: Config) -> Iterator[str]:
    if not isinstance(config.get("model_type"), str):
        yield (
            "config.json has no model_type, by which the model's code is found; add the one of its family (for example "
            "llama)"
        )
    if config.get(_ENCODER_DECODER):
        yield f"{_ENCODER_DECODER} is true: an encoder-decoder is not a causal language model"


def _quantisation(config: Config) -> Iterator[str]:
    for name in ("quantization_config", "compression_config"):
        entry = config.get(name)
        if entry:
            method = cast(Config, entry).get("quant_method") if isinstance(entry, dict) else entry
            yield (
                f"{name} says that the weights are quantised (quant_method {method}); only floating-point ones are "
                "trained: take the unquantised checkpoint"
            )


def _heads(text: Config) -> Iterator[str]:
    heads, kv_heads = _count(text, "num_attention_heads"), _count(text, "num_key_value_heads")
    if heads and kv_heads and heads % kv_heads:
        yield (
            f"num_attention_heads is {heads} and num_key_value_heads {kv_heads}: every key head has to serve as many "
            "query heads"
        )


def _rope(text: Config) -> Iterator[str]:
    for field in _ROPE_FIELDS:
        entry = text.get(field)
        if entry is None:
            continue
        if not isinstance(entry, dict):
            yield f"{field} is {entry!r}, not an object"
            continue
        entries = cast(dict[str, Any], entry)
        nested = [
            (f"{field}.{name}", cast(Config, value)) for name, value in entries.items() if isinstance(value, dict)
        ]
        for name, scaling in nested or [(field, entries)]:
            yield from _rope_entry(name, scaling)


def _rope_entry(field: str, scaling: Config) -> Iterator[str]:
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in ROPE_NUMBERS:
        yield f"{field}.rope_type is {kind!r}; known are {', '.join(ROPE_NUMBERS)}"
        return
    for name in ROPE_NUMBERS[kind]:
        value = scaling.get(name)
        if name == "original_max_position_embeddings" and value is None and kind == "yarn":
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            have = "missing" if value is None else repr(value)
            yield f"{field}.{name} is {have}; rope_type {kind} needs a number above 0"
    for name in ROPE_LISTS.get(kind, ()):
        value = scaling.get(name)
        if not isinstance(value, list) or not all(isinstance(n, int | float) for n in cast(list[Any], value)):
            have = "missing" if value is None else "not a list of numbers"
            yield f"{field}.{name} is {have}; rope_type {kind} needs it"


def _windows(text: Config) -> Iterator[str]:
    window = text.get("sliding_window")
    used = text.get("use_sliding_window", True)
    if used and isinstance(window, int) and not isinstance(window, bool) and window < 1:
        yield f"sliding_window is {window}: no token would see anything; set it to null for no window"
    kinds, layers = text.get("layer_types"), _count(text, "num_hidden_layers")
    if isinstance(kinds, list) and layers is not None and len(cast(list[Any], kinds)) != layers:
        yield f"layer_types has {len(cast(list[Any], kinds))} entries, num_hidden_layers is {layers}"


def _padding(text: Config) -> Iterator[str]:
    """An embedding is made with the padding token's row left out of training, so it has to be there."""
    rows, padding = _count(text, "vocab_size"), _count(text, "pad_token_id")
    if rows and padding and padding >= rows:
        yield f"pad_token_id is {padding}, but vocab_size is {rows}: the embedding has no such row"


def _count(config: Config, name: str) -> int | None:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
