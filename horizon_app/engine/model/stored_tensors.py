"""The tensors of a checkpoint folder: names and shapes from headers, values through memory maps.

Knows nothing of models. One file is mapped at a time, and not for long: pages that were read through a map count as
memory of the process until the map is closed.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from horizon_app.engine.errors import WeightsUnusable

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
MAPPED_BYTES = 64 << 20
"""Bytes read through one map before it is closed and opened anew."""
BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16}
"""The floating formats that are trained from; anything else is quantised, or no weight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTensor:
    """A tensor as its file's header describes it."""

    path: Path
    dtype: str  # in safetensors' words, for example BF16
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        total = 1
        for size in self.shape:
            total *= size
        return total


class StoredTensors:
    """What a folder's safetensors files hold. Where there is an index, it alone decides which files belong together."""

    def __init__(self, folder: Path) -> None:
        """Read the headers. Raises WeightsUnusable where files are missing, cut short or at odds with the index."""
        self.folder = folder
        named = _named_files(folder)
        self.tensors: dict[str, StoredTensor] = {}
        for path in sorted(set(named.values())):
            for name, tensor in _header(path).items():
                if named.get(name, path) == path:  # a second copy in a shard that the index does not name is left
                    self.tensors[name] = tensor
        _check_index(folder, named, self.tensors)
        self._mapped: tuple[Path, Any] | None = None
        self._read_bytes = 0

    def read(self, name: str) -> torch.Tensor:
        """A tensor, as a view into its file. Raises WeightsUnusable."""
        return self._map(name, self.tensors[name].numel).get_tensor(name)

    def read_rows(self, name: str, start: int, end: int) -> torch.Tensor:
        """Rows [`start`, `end`) of a tensor of one dimension or more. Raises WeightsUnusable."""
        tensor = self.tensors[name]
        return self._map(name, tensor.numel // tensor.shape[0] * (end - start)).get_slice(name)[start:end]

    def close(self) -> None:
        """Close the map; tensors that were read keep it alive as long as they are."""
        self._mapped, self._read_bytes = None, 0

    def _map(self, name: str, numel: int) -> Any:
        tensor = self.tensors[name]
        if self._mapped is None or self._mapped[0] != tensor.path or self._read_bytes > MAPPED_BYTES:
            self.close()
            self._mapped = tensor.path, _open(tensor.path)
        self._read_bytes += numel * BITS.get(tensor.dtype, 8) // 8
        return self._mapped[1]


def _named_files(folder: Path) -> dict[str, Path]:
    """Which file holds which tensor, as the index says; a single file has no names yet but its own."""
    index = folder / INDEX
    if index.exists():
        try:
            mapping: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            named = {name: folder / Path(file).name for name, file in mapping.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
            raise WeightsUnusable(f"{index} can't be read: {type(failure).__name__}: {failure}") from failure
        missing = sorted({path.name for path in named.values() if not path.is_file()})
        if missing:
            raise WeightsUnusable(
                f"{folder}: {INDEX} names {len(missing)} files that are not there: {', '.join(missing[:5])}; download "
                "the model again"
            )
        return named
    single = folder / SINGLE
    if not single.is_file():
        raise WeightsUnusable(
            f"{folder} holds neither {SINGLE} nor {INDEX}; convert it with `horizon model convert`, or set "
            "model.init to random"
        )
    return {"": single}


def _check_index(folder: Path, named: dict[str, Path], tensors: dict[str, StoredTensor]) -> None:
    absent = [(name, path) for name, path in named.items() if name and name not in tensors]
    if absent:
        told = ", ".join(f"{name} in {path.name}" for name, path in absent[:5])
        raise WeightsUnusable(f"{folder}: {INDEX} promises {len(absent)} tensors that are not there: {told}")


def _header(path: Path) -> dict[str, StoredTensor]:
    file = _open(path)
    found: dict[str, StoredTensor] = {}
    for name in file.keys():  # noqa: SIM118  the handle is no mapping
        tensor = file.get_slice(name)
        found[name] = StoredTensor(path=path, dtype=tensor.get_dtype(), shape=tuple(tensor.get_shape()))
    return found


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as failure:
        raise WeightsUnusable(f"{path} can't be read, or is cut short: {failure}") from failure
