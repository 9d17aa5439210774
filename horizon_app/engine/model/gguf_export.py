"""From a checkpoint to a GGUF file, tensor by tensor, for the families that llama.cpp reads like a Llama."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import (
    GGML_QUANT_VERSION,
    MODEL_ARCH,
    MODEL_ARCH_NAMES,
    GGMLQuantizationType,
    GGUFReader,
    GGUFWriter,
    LlamaFileType,
    RopeScalingType,
    get_tensor_name_map,
)
from gguf.quants import quant_shape_to_byte_shape, quantize
from numpy.typing import NDArray

from horizon_app.contracts.export import ExportDtype
from horizon_app.engine.model.discovery import load_config
from horizon_app.engine.model.export import ExportImpossible, OnStage, Source, require_room
from horizon_app.engine.model.gguf_header import read_gguf_header
from horizon_app.engine.model.gguf_vocabulary import read_vocabulary
from horizon_app.engine.model.tensor_writer import WrittenFile

_FAMILIES = {
    "llama": MODEL_ARCH.LLAMA, "mistral": MODEL_ARCH.LLAMA, "qwen2": MODEL_ARCH.QWEN2, "qwen3": MODEL_ARCH.QWEN3,
}  # fmt: skip
_ENCODINGS = {
    ExportDtype.FP16: (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
    ExportDtype.Q8_0: (GGMLQuantizationType.Q8_0, LlamaFileType.MOSTLY_Q8_0),
}
_BLOCK = 32
"""Columns that Q8_0 rounds together; a matrix of another width stays F16."""
_SUFFIXES = (".weight", ".bias")
_ROPE_FACTORS = "rope_freqs.weight"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tensor:
    """A tensor of the file: what it is made of, and how it is stored."""

    name: str
    source: str
    shape: tuple[int, ...]
    encoding: GGMLQuantizationType
    heads: int | None  # rows of each head are interleaved, as llama.cpp rotates them

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Of the stored elements, or bytes where blocks of them are packed."""
        packed = self.encoding is GGMLQuantizationType.Q8_0
        return quant_shape_to_byte_shape(self.shape, self.encoding) if packed else self.shape

    @property
    def element(self) -> Any:
        """The type that numpy gives what is stored."""
        return {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}.get(self.encoding, np.uint8)

    @property
    def num_bytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.stored_shape) * np.dtype(self.element).itemsize


def export_gguf(source: Source, folder: Path, dtype: ExportDtype, on_stage: OnStage) -> tuple[list[WrittenFile], int]:
    """Write `folder`/model-DTYPE.gguf and read it back; answers the file and the tensors compared.

    Raises ExportImpossible for what llama.cpp has no words for, OSError.
    """
    config = load_config(source.folder).get_text_config()
    family = str(config.model_type)
    _refuse_unknown(family, config)
    encoding, file_type = _ENCODINGS[dtype]
    tensors = _plan(source, config, encoding)
    path = folder / f"model-{dtype}.gguf"
    require_room(folder, sum(tensor.num_bytes for tensor in tensors) + (64 << 20))
    writer = GGUFWriter(path, MODEL_ARCH_NAMES[_FAMILIES[family]])
    _describe(writer, config, file_type)
    vocabulary = read_vocabulary(source.folder, config.vocab_size)
    vocabulary.special.chat_template = source.chat_template or vocabulary.special.chat_template
    vocabulary.write(writer)
    on_stage(f"writing {len(tensors)} tensors to {path.name}")
    _write(writer, source, tensors, _rope_factors(config))
    on_stage("reading every tensor back")
    compared = _compare(path, source, tensors)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return [WrittenFile(name=path.name, num_bytes=path.stat().st_size, sha256=digest)], compared


def _refuse_unknown(family: str, config: Any) -> None:
    if family not in _FAMILIES:
        raise ExportImpossible(
            f"models of the family {family} can't be written as GGUF yet, only {', '.join(_FAMILIES)}; export "
            "safetensors, and convert them with llama.cpp's own converter"
        )
    if getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False):
        raise ExportImpossible(f"a {family} with biases can't be written as GGUF yet; export safetensors")
    rope = _rope(config)
    if rope["rope_type"] not in ("default", "linear", "llama3"):
        raise ExportImpossible(f"rope_type {rope['rope_type']} can't be written as GGUF yet; export safetensors")
    window = getattr(config, "sliding_window", None)
    uses = family == "mistral" or getattr(config, "use_sliding_window", False)
    if window and uses and window < config.max_position_embeddings:
        raise ExportImpossible(
            f"sliding_window is {window}, which llama.cpp has no words for in this family: the model would attend to "
            "more than it has learnt; export safetensors"
        )


def _rope(config: Any) -> dict[str, Any]:
    return {"rope_type": "default", **(getattr(config, "rope_parameters", None) or {})}


def _head_dim(config: Any) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _describe(writer: GGUFWriter, config: Any, file_type: LlamaFileType) -> None:
    heads, rope = config.num_attention_heads, _rope(config)
    writer.add_file_type(file_type)
    writer.add_quantization_version(GGML_QUANT_VERSION)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(getattr(config, "num_key_value_heads", None) or heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(float(rope.get("rope_theta", 10_000.0)))
    writer.add_rope_dimension_count(_head_dim(config))
    writer.add_key_length(_head_dim(config))
    writer.add_value_length(_head_dim(config))
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(float(rope["factor"]))


def _plan(source: Source, config: Any, encoding: GGMLQuantizationType) -> list[_Tensor]:
    arch = _FAMILIES[config.model_type]
    names = get_tensor_name_map(arch, config.num_hidden_layers)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    planned: list[_Tensor] = []
    for stored in source.names:
        name = names.get_name(stored, try_suffixes=_SUFFIXES)
        if name is None:
            raise ExportImpossible(f"{stored} has no name in a GGUF file of the family {config.model_type}")
        shape = source.stored.tensors[stored].shape
        kept = GGMLQuantizationType.F32 if len(shape) < 2 else encoding  # vectors are never rounded
        if kept is GGMLQuantizationType.Q8_0 and shape[len(shape) - 1] % _BLOCK:
            kept = GGMLQuantizationType.F16
        part = name.split(".")[-2]
        turned = heads.get(part) if arch is MODEL_ARCH.LLAMA else None
        planned.append(_Tensor(name=name, source=stored, shape=shape, encoding=kept, heads=turned))
    return planned


def _values(source: Source, tensor: _Tensor) -> NDArray[Any]:
    """What the file holds of a tensor."""
    dtype = torch.float16 if tensor.encoding is GGMLQuantizationType.F16 else torch.float32
    values = source.tensor(tensor.source, dtype).numpy()
    if tensor.heads is not None:
        halves = values.reshape(tensor.heads, 2, values.shape[0] // tensor.heads // 2, *values.shape[1:])
        values = halves.swapaxes(1, 2).reshape(values.shape)
    return np.ascontiguousarray(quantize(values, tensor.encoding))


def _write(writer: GGUFWriter, source: Source, tensors: list[_Tensor], rope_factors: NDArray[Any] | None) -> None:
    if rope_factors is not None:
        writer.add_tensor_info(_ROPE_FACTORS, rope_factors.shape, rope_factors.dtype, rope_factors.nbytes)
    for tensor in tensors:
        writer.add_tensor_info(
            tensor.name, tensor.stored_shape, np.dtype(tensor.element), tensor.num_bytes, raw_dtype=tensor.encoding
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    if rope_factors is not None:
        writer.write_tensor_data(rope_factors)
    for tensor in tensors:
        writer.write_tensor_data(_values(source, tensor))
    writer.close()
    source.stored.close()


def _compare(path: Path, source: Source, tensors: list[_Tensor]) -> int:
    read_gguf_header(path)  # whole, by our own reader
    reader = GGUFReader(path)
    found = {tensor.name: tensor for tensor in reader.tensors}
    for tensor in tensors:
        meant = _values(source, tensor)
        there = found[tensor.name]
        same = there.tensor_type is tensor.encoding and np.array_equal(
            np.asarray(there.data).reshape(-1).view(np.uint8), meant.reshape(-1).view(np.uint8)
        )
        if not same:
            raise ExportImpossible(f"{tensor.name} was read back from {path.name} and differs from what was written")
    source.stored.close()
    return len(tensors)


def _rope_factors(config: Any) -> NDArray[Any] | None:
    """By what each frequency is divided, where a Llama 3 was stretched: llama.cpp reads it as a tensor."""
    rope = _rope(config)
    if rope["rope_type"] != "llama3":
        return None
    factor, old = float(rope["factor"]), float(rope["original_max_position_embeddings"])
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    return np.array(list(_llama3(float(rope["rope_theta"]), _head_dim(config), factor, (low, high, old))), np.float32)


def _llama3(theta: float, dim: int, factor: float, context: tuple[float, float, float]) -> Iterator[float]:
    low, high, old = context
    for i in range(0, dim, 2):
        length = 2 * math.pi * theta ** (i / dim)
        if length < old / high:
            yield 1.0
        elif length > old / low:
            yield factor
        else:
            smooth = (old / length - low) / (high - low)
            yield 1.0 / ((1.0 - smooth) / factor + smooth)
