"""Reads JSON files and headers of safetensors files of a model: no weights, no pickle, no code of the model."""

import json
from pathlib import Path
from typing import Any, cast

_MAX_HEADER_BYTES = 100 << 20
_MAX_JSON_BYTES = 50 << 20
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
Header = tuple[str, tuple[int, ...]]
"""A tensor's dtype, in safetensors' words, and its shape."""


class Unreadable(ValueError):
    """A file of the model can't be read."""


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises Unreadable."""
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


def read_headers(folder: Path) -> tuple[dict[str, Header], int]:
    """Every tensor that the folder's weight files hold, and the bytes of the files.

    Raises Unreadable where files are missing, cut short, or at odds with their index.
    """
    index = folder / _INDEX
    named = _weight_map(index) if index.is_file() else {}
    files = _shards(folder, named) if named else [_single_file(folder)]
    tensors: dict[str, Header] = {}
    for path in files:
        found = read_header(path)
        tensors.update({name: found[name] for name in found if named.get(name, path.name) == path.name})
    absent = [f"{name} in {file}" for name, file in named.items() if name not in tensors]
    if absent:
        raise Unreadable(f"{_INDEX} promises {len(absent)} tensors that are not there: {', '.join(absent[:5])}")
    try:
        return tensors, sum(path.stat().st_size for path in files)
    except OSError as error:  # one went away meanwhile
        raise Unreadable(f"{error.filename} can't be read: {error.strerror}") from error


def _weight_map(index: Path) -> dict[str, str]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise Unreadable(f"{index.name} has no weight_map")
    return {str(name): str(file) for name, file in cast(dict[str, object], names).items()}


def _shards(folder: Path, named: dict[str, str]) -> list[Path]:
    shards = sorted(set(named.values()))
    missing = [name for name in shards if Path(name).name != name or not (folder / name).is_file()]
    if missing:
        raise Unreadable(f"{_INDEX} names {len(missing)} files that are not there: {', '.join(missing[:5])}")
    return [folder / name for name in shards]


def _single_file(folder: Path) -> Path:
    if (folder / _SINGLE).is_file():
        return folder / _SINGLE
    found = sorted(path.name for pattern in _OTHER_WEIGHTS for path in folder.glob(pattern))
    have = f"only {found[0]}, which is never loaded as it is" if found else "no weights"
    raise Unreadable(
        f"the folder has {have} ({_SINGLE} or its shards are needed; `horizon model convert` makes them of GGUF and "
        ".bin files)"
    )


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
