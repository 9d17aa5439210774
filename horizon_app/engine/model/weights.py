"""Weights in: safetensors shards to the host pool's masters, tensor by tensor.

Never holds the model twice: the files are mapped.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import PretrainedConfig

from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.memory.geometry import Parameter

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
Write = Callable[[Parameter, torch.Tensor], None]


def tensor_files(model_dir: Path) -> dict[str, Path]:
    """Which file holds which tensor. Raises WeightsUnusable where files are missing or can't be read."""
    index = model_dir / INDEX
    if index.exists():
        mapping: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        missing = sorted({name for name in mapping.values() if not (model_dir / name).is_file()})
        if missing:
            raise WeightsUnusable(f"{model_dir}: {INDEX} names files that are not there: {', '.join(missing)}")
        return {tensor: model_dir / name for tensor, name in mapping.items()}
    single = model_dir / SINGLE
    if not single.is_file():
        raise WeightsUnusable(
            f"{model_dir} holds neither {SINGLE} nor {INDEX}; convert it with `horizon model convert`, or set "
            "model.init to random"
        )
    with _open(single) as file:
        return dict.fromkeys(file.keys(), single)


def read_weights(
    model_dir: Path, parameters: Sequence[Parameter], write: Write, *, prefix: str, aliases: Mapping[str, str]
) -> None:
    """Hand the tensor of each parameter to `write`, one at a time, in any floating dtype.

    `prefix` is the base model's name: checkpoints of a bare base model leave it out. `aliases` gives a second name for
    a tied parameter. Raises WeightsUnusable with every tensor that is missing or of another shape.
    """
    files = tensor_files(model_dir)
    wanted: dict[Path, list[tuple[str, Parameter]]] = {}
    missing: list[str] = []
    for parameter in parameters:
        key = _find(parameter.name, files, prefix, aliases)
        if key is None:
            missing.append(parameter.name)
        else:
            wanted.setdefault(files[key], []).append((key, parameter))
    if missing:
        raise WeightsUnusable(
            f"{model_dir}: {len(missing)} of {len(parameters)} tensors are missing, first {', '.join(missing[:5])}"
        )
    for path, entries in wanted.items():
        with _open(path) as file:
            for key, parameter in entries:
                tensor = file.get_tensor(key)
                _check(tensor, parameter, path, key)
                write(parameter, tensor)


def refuse_quantised(config: PretrainedConfig) -> None:
    """Raise WeightsUnusable where the config says that the stored weights are quantised."""
    if getattr(config, "quantization_config", None) is not None:
        raise WeightsUnusable("config.json says that the weights are quantised; only floating-point ones are trained")


def _find(name: str, files: dict[str, Path], prefix: str, aliases: Mapping[str, str]) -> str | None:
    for candidate in (name, aliases.get(name)):
        if candidate is None:
            continue
        for key in (candidate, candidate.removeprefix(f"{prefix}."), f"{prefix}.{candidate}"):
            if key in files:
                return key
    return None


def _check(source: torch.Tensor, parameter: Parameter, path: Path, key: str) -> None:
    if tuple(source.shape) != parameter.shape:
        raise WeightsUnusable(
            f"{path}: {key} has shape {list(source.shape)}, the config asks for {list(parameter.shape)}"
        )
    if not source.is_floating_point():
        raise WeightsUnusable(
            f"{path}: {key} holds {source.dtype} (quantised?); only floating-point weights are trained"
        )


def _open(path: Path) -> safe_open:  # type: ignore[valid-type]
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as failure:
        raise WeightsUnusable(f"{path} can't be read: {failure}") from failure
