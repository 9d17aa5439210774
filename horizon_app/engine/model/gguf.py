"""From a GGUF file to a Hugging Face checkpoint folder: weights without quantisation, config, tokenizer, chat template.

transformers reads the file. Its save_pretrained refuses what came from one, so tensors and config are written here. The
finished folder is loaded again and has to give the same logits before it gets its name.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from horizon_app.engine.errors import UnsupportedModel, WeightsUnusable
from horizon_app.engine.model.gguf_header import GgufHeader, read_gguf_header
from horizon_app.engine.model.gguf_positions import scale_positions
from horizon_app.engine.model.new_folder import appearing
from horizon_app.engine.model.tensor_writer import TensorEntry, write_tensors

PROMPT = "The capital of France is"
LOGITS_TOLERANCE = {torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 5e-2}
"""Largest root mean square difference of the logits, in standard deviations of the logits, by the written dtype."""

_MOMENTARY = ("is_local", "local_files_only")
"""What a tokenizer remembers of how it was loaded; no property of the tokenizer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """What was written."""

    architecture: str
    encoding: str  # of the GGUF file
    parameters: int
    num_bytes: int
    tied: bool
    num_tokens: int
    has_chat_template: bool
    prompt_tokens: int
    difference: float  # of the logits, root mean square in standard deviations
    tolerance: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """The model as transformers loads it from the GGUF file, fp32."""

    model: PreTrainedModel
    tokenizer: Any
    header: GgufHeader


def convert_gguf(
    path: Path, out: Path, *, dtype: torch.dtype, on_stage: Callable[[str], None] = lambda stage: None
) -> Conversion:
    """Write the model of the GGUF file `path` into the new folder `out`, which appears whole or not at all.

    `on_stage` hears what is being done. Raises UnsupportedModel and WeightsUnusable, also OSError.
    """
    header = read_gguf_header(path)
    if header.metadata.get("split.count", 1) not in (0, 1):
        raise WeightsUnusable(f"{path} is one of {header.metadata['split.count']} parts; this is not available yet")
    with appearing(out) as folder:
        on_stage(f"reading {path.name} ({header.encoding}) with transformers")
        source = _load(path, header)
        ids, expected = _logits(source.model, source.tokenizer)
        on_stage(f"writing {str(dtype).removeprefix('torch.')} tensors")
        num_bytes = _write(source, folder, dtype)
        facts: dict[str, Any] = {
            "architecture": type(source.model).__name__,
            "parameters": sum(parameter.numel() for parameter in source.model.parameters()),
            "tied": bool(source.model.config.get_text_config().tie_word_embeddings),
            "num_tokens": len(source.tokenizer),
            "has_chat_template": bool(source.tokenizer.chat_template),
        }
        del source  # the model is not held twice
        on_stage("checking the logits of the written folder")
        difference = _check(folder, ids, expected, LOGITS_TOLERANCE[dtype])
    return Conversion(
        encoding=header.encoding, num_bytes=num_bytes, prompt_tokens=len(ids), difference=difference,
        tolerance=LOGITS_TOLERANCE[dtype], **facts,
    )  # fmt: skip


def _load(path: Path, header: GgufHeader) -> _Source:
    options: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    try:
        model = _load_model(path.parent, **options)
        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), **options)
    except (OSError, ValueError, KeyError, IndexError, RuntimeError) as failure:
        # NotImplementedError, for an encoding that is not known, is a RuntimeError.
        raise UnsupportedModel(f"{path} (architecture {header.architecture}): {_first_line(failure)}") from failure
    scale_positions(model, path, header)
    return _Source(model=model, tokenizer=tokenizer, header=header)


def _load_model(folder: Path, **options: Any) -> PreTrainedModel:
    """The model in fp32. Raises WeightsUnusable where tensors are missing: they would be filled with random numbers."""
    auto: Any = AutoModelForCausalLM
    model, info = auto.from_pretrained(str(folder), dtype=torch.float32, output_loading_info=True, **options)
    wrong = sorted(str(key) for kind in ("missing_keys", "mismatched_keys") for key in info.get(kind, ()))
    if wrong:
        raise WeightsUnusable(f"{folder}: {len(wrong)} tensors are missing or of another shape, first {wrong[0]}")
    return model.eval()


@torch.no_grad()
def _logits(model: PreTrainedModel, tokenizer: Any) -> tuple[list[int], torch.Tensor]:
    """The prompt's ids, and the logits [tokens, vocabulary] after each."""
    ids = list(tokenizer(PROMPT)["input_ids"]) or [0]
    return ids, model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()


def _write(source: _Source, folder: Path, dtype: torch.dtype) -> int:
    """All files of the checkpoint; answers the bytes of its weights."""
    model, tokenizer = source.model, source.tokenizer
    # named_parameters gives a tied weight once, under the embedding's name, which is how checkpoints store it.
    stored = {*dict(model.named_parameters()), *dict(model.named_buffers())}
    tensors = {name: tensor.detach() for name, tensor in model.state_dict().items() if name in stored}

    def entry(name: str, tensor: torch.Tensor) -> TensorEntry:
        stored_as = dtype if tensor.is_floating_point() else tensor.dtype
        return TensorEntry(name=name, dtype=stored_as, shape=tuple(tensor.shape), read=lambda: tensor.to(stored_as))

    written = write_tensors(folder, [entry(name, tensor) for name, tensor in tensors.items()])
    _save_config(model, folder, dtype)
    model.generation_config.save_pretrained(folder)
    _save_tokenizer(tokenizer, folder, model.config.get_text_config())
    return sum(file.num_bytes for file in written)


def _save_config(model: PreTrainedModel, folder: Path, dtype: torch.dtype) -> None:
    config = model.config
    for name in ("quantization_config", "_model_name_or_path"):
        if hasattr(config, name):
            delattr(config, name)
    config.architectures = [type(model).__name__]
    config.dtype = dtype
    config.save_pretrained(folder)


def _save_tokenizer(tokenizer: Any, folder: Path, text_config: Any) -> None:
    longest = getattr(text_config, "max_position_embeddings", None)
    if longest is not None:
        tokenizer.model_max_length = longest  # a GGUF file does not say, and the stand-in is astronomic
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in saved.items() if key not in _MOMENTARY}
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _check(folder: Path, ids: list[int], expected: torch.Tensor, tolerance: float) -> float:
    """Load the folder as anybody would, and compare. Answers the difference of the logits; raises WeightsUnusable."""
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    model = _load_model(folder, **options)
    read_ids, found = _logits(model, AutoTokenizer.from_pretrained(str(folder), **options))
    if read_ids != ids:
        raise WeightsUnusable(f"the written tokenizer gives {read_ids} for {PROMPT!r}, the GGUF file's gives {ids}")
    difference = float((found - expected).square().mean().sqrt() / expected.std())
    if not difference <= tolerance:
        raise WeightsUnusable(
            f"the written model's logits differ from the GGUF file's by {difference:.2g} standard deviations, more "
            f"than {tolerance:g}; nothing was kept"
        )
    return difference


def _first_line(failure: BaseException) -> str:
    text = str(failure).strip()
    return text.splitlines()[0] if text else type(failure).__name__
