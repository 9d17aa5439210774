"""From a checkpoint folder with pickled or sharded weights to one with safetensors, as small in memory as either.

Pickled files are read in a process of their own (see unpickle). The new folder is looked through as before training.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.model.companions import read_companions
from horizon_app.engine.model.discovery import build_meta, discover, load_config, stage_parameters
from horizon_app.engine.model.new_folder import appearing
from horizon_app.engine.model.stored_tensors import INDEX, SINGLE, StoredTensors
from horizon_app.engine.model.tensor_writer import TensorEntry, write_tensors
from horizon_app.engine.model.weights import plan_weights

PICKLED = (".bin", ".pt", ".pth", ".ckpt")
GGUF = ".gguf"
_PICKLED_INDEX = "pytorch_model.bin.index.json"
_PASSED_ON = ("PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""What the process that unpickles gets of the environment: nothing that a token could be in."""


class Kind(StrEnum):
    """What a source of weights is."""

    GGUF = "gguf"
    PICKLED = "pickled"
    SAFETENSORS = "safetensors"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where weights come from."""

    kind: Kind
    folder: Path  # with config.json and tokenizer; not asked of a GGUF file
    files: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What was written."""

    kind: Kind
    architecture: str
    tensors: int
    num_bytes: int


def find_source(path: Path) -> Source:
    """What `path`, a file or a folder, has to convert. Raises WeightsUnusable where nothing, or no single thing."""
    if path.is_dir():
        return _in_folder(path)
    if not path.is_file():
        raise WeightsUnusable(f"there is no file or folder {path}")
    kind = Kind.PICKLED if path.suffix.lower() in PICKLED else Kind.GGUF
    return Source(kind=Kind.SAFETENSORS if path.suffix == ".safetensors" else kind, folder=path.parent, files=(path,))


def import_weights(
    source: Source, out: Path, *, dtype: torch.dtype | None, on_stage: Callable[[str], None] = lambda stage: None
) -> Imported:
    """Write the model of `source` into the new folder `out`, which appears whole or not at all.

    `dtype` None keeps what is stored. `on_stage` hears what is being done. Raises WeightsUnusable, UnsupportedModel
    where the folder is no model that can be trained, and OSError.
    """
    with appearing(out) as folder:
        for name, content in read_companions(source.folder).items():
            (folder / name).write_bytes(content)
        if dtype is not None:
            _note_dtype(folder / "config.json", dtype)
        names = ", ".join(path.name for path in source.files[:3])
        if source.kind is Kind.PICKLED:
            on_stage(f"reading {names} in a process of its own")
            tensors, num_bytes = _unpickle(source, folder, dtype)
        else:
            on_stage(f"writing the tensors of {names}")
            tensors, num_bytes = _rewrite(source, folder, dtype)
        on_stage("checking that every tensor of the model is there")
        found = discover(build_meta(load_config(folder)))
        plan_weights(folder, found, [parameter.name for _, stage in stage_parameters(found) for parameter in stage])
        architecture = type(found.causal).__name__
    return Imported(kind=source.kind, architecture=architecture, tensors=tensors, num_bytes=num_bytes)


def _in_folder(folder: Path) -> Source:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    gguf = [path for path in files if path.suffix.lower() == GGUF]
    if len(gguf) > 1:
        names = ", ".join(path.name for path in gguf)
        raise WeightsUnusable(f"{folder} holds {len(gguf)} GGUF files ({names}); name one of them")
    if gguf:
        return Source(kind=Kind.GGUF, folder=folder, files=(gguf[0],))
    if (folder / SINGLE).exists() or (folder / INDEX).exists():
        stored = tuple(sorted({tensor.path for tensor in StoredTensors(folder).tensors.values()}))
        return Source(kind=Kind.SAFETENSORS, folder=folder, files=stored)
    pickled = _pickled(folder, files)
    if not pickled:
        raise WeightsUnusable(f"{folder} holds no weights: no GGUF, .bin, .pt or safetensors file")
    return Source(kind=Kind.PICKLED, folder=folder, files=pickled)


def _pickled(folder: Path, files: list[Path]) -> tuple[Path, ...]:
    index = folder / _PICKLED_INDEX
    if not index.is_file():
        found = tuple(path for path in files if path.suffix.lower() in PICKLED and path.name != "training_args.bin")
        if len(found) > 1:
            raise WeightsUnusable(
                f"{folder} holds {len(found)} pickled files ({', '.join(path.name for path in found[:5])}) and no "
                f"{_PICKLED_INDEX} that says which belong together; name one of them"
            )
        return found
    try:
        named = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        shards = sorted({folder / Path(name).name for name in named})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
        raise WeightsUnusable(f"{index} can't be read: {type(failure).__name__}: {failure}") from failure
    missing = [path.name for path in shards if not path.is_file()]
    if missing:
        raise WeightsUnusable(
            f"{folder}: {_PICKLED_INDEX} names {len(missing)} files that are not there: {', '.join(missing[:5])}"
        )
    return tuple(shards)


def _unpickle(source: Source, out: Path, dtype: torch.dtype | None) -> tuple[int, int]:
    """Tensors and bytes that the process wrote."""
    order = {
        "files": [str(path.absolute()) for path in source.files], "out": str(out),
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "horizon_app.engine.model.unpickle"], input=json.dumps(order), capture_output=True,
        text=True, check=False, cwd=out, env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )  # fmt: skip
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = next(iter(done.stderr.strip().splitlines()[-1:]), "no word")
        answer = {"error": f"its process ended with code {done.returncode}: {last}"}
    if "error" in answer:
        raise WeightsUnusable(f"{source.files[0]} can't be converted: {answer['error']}")
    return int(answer["tensors"]), int(answer["num_bytes"])


def _rewrite(source: Source, out: Path, dtype: torch.dtype | None) -> tuple[int, int]:
    stored = StoredTensors(source.folder)

    def entry(name: str) -> TensorEntry:
        tensor = stored.read(name)
        kept = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        return TensorEntry(
            name=name, dtype=kept, shape=tuple(tensor.shape), read=lambda: stored.read(name).to(kept)
        )  # fmt: skip

    written = write_tensors(out, [entry(name) for name in stored.tensors])
    stored.close()
    return len(stored.tensors), sum(file.num_bytes for file in written)


def _note_dtype(path: Path, dtype: torch.dtype) -> None:
    """Say in the config that the weights have been cast."""
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise WeightsUnusable(f"the folder's config.json can't be read: {failure}") from failure
    config.pop("torch_dtype", None)
    config["dtype"] = str(dtype).removeprefix("torch.")
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
