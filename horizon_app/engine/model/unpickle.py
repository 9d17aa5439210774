"""The process that reads pickled weights (.bin, .pt), and nothing else: `python -m horizon_app.engine.model.unpickle`.

torch's restricted unpickler makes tensors and refuses everything else. Should it ever fail to, it does so in here: in a
process that knows no token and no other file's name, whose answer is read as plain JSON.
"""

import json
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from horizon_app.engine.model.tensor_writer import TensorEntry, write_tensors

_WRAPPERS = ("state_dict", "model", "module")
"""Keys under which training scripts keep the tensors, beside other things."""


def main() -> int:
    """Read the order from standard input, write safetensors, tell on standard output; exit code 0 or 1."""
    order: dict[str, Any] = json.load(sys.stdin)
    dtype = None if order["dtype"] is None else getattr(torch, order["dtype"])
    try:
        entries = [entry for path in order["files"] for entry in _entries(Path(path), dtype)]
        doubled = sorted({e.name for e in entries if sum(e.name == other.name for other in entries) > 1})
        if doubled:
            raise ValueError(f"{len(doubled)} tensors are stored more than once, first {doubled[0]}")
        written = write_tensors(Path(order["out"]), entries)
        answer: dict[str, Any] = {"num_bytes": sum(file.num_bytes for file in written), "tensors": len(entries)}
    except (OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        answer = {"error": " ".join(str(error).split())}
    json.dump(answer, sys.stdout)
    return 1 if "error" in answer else 0


def _entries(path: Path, dtype: torch.dtype | None) -> list[TensorEntry]:
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except (pickle.UnpicklingError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path.name} holds something else than tensors, and could run code: {reason}") from error
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    strange = (
        [key for key, value in content.items() if not isinstance(value, torch.Tensor) or not isinstance(key, str)]
        if isinstance(content, dict)
        else [type(content).__name__]
    )
    if strange or not content:
        raise ValueError(
            f"{path.name} is no table of tensors: it holds {', '.join(map(str, strange[:5])) or 'nothing'}"
        )
    return [_entry(name, tensor, dtype) for name, tensor in content.items()]


def _entry(name: str, tensor: torch.Tensor, dtype: torch.dtype | None) -> TensorEntry:
    kept = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype

    def maker() -> Callable[[], torch.Tensor]:
        return lambda: tensor.detach().to(kept).contiguous()

    return TensorEntry(name=name, dtype=kept, shape=tuple(tensor.shape), read=maker())


if __name__ == "__main__":
    sys.exit(main())
