"""safetensors files written as they are made: header first, then tensor after tensor, hashed on the way.

safetensors' own `save_file` wants all tensors of a file in memory, and leaves a file that only its owner may read.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

SHARD_BYTES = 4 << 30
"""Size of a shard where nobody asks for another: Hugging Face's readers map it, and FAT volumes still take it."""
_WORDS = {
    torch.float64: "F64", torch.int64: "I64", torch.float32: "F32", torch.int32: "I32", torch.bfloat16: "BF16",
    torch.float16: "F16", torch.int16: "I16", torch.uint8: "U8", torch.int8: "I8", torch.bool: "BOOL",
}  # fmt: skip
_ALIGNMENT = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorEntry:
    """One tensor to be written: what it is, and how its content is had when its turn comes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    read: Callable[[], torch.Tensor | Iterable[torch.Tensor]]
    """The whole tensor, or its elements in pieces of any shape, in order: then at most a piece is in memory."""

    @property
    def num_bytes(self) -> int:
        """Bytes of its content."""
        return self.dtype.itemsize * torch.Size(self.shape).numel()


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFile:
    """One file that was written."""

    name: str
    num_bytes: int
    sha256: str


def write_tensors(
    folder: Path, entries: Sequence[TensorEntry], *, shard_bytes: int = SHARD_BYTES, stem: str = "model"
) -> list[WrittenFile]:
    """Write `entries` to `folder`; answers the files, the index among them where there is one.

    All go to STEM.safetensors, or where that would pass `shard_bytes` to STEM-00001-of-0000N.safetensors and an index,
    in order; a tensor is never split. At most one is in memory. Raises OSError, and whatever a `read` raises.
    """
    shards = _split(entries, shard_bytes)
    if len(shards) == 1:
        return [_write_file(folder / f"{stem}.safetensors", shards[0])]
    names = [f"{stem}-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    written = [_write_file(folder / name, shard) for name, shard in zip(names, shards, strict=True)]
    index = {
        "metadata": {"total_size": sum(entry.num_bytes for entry in entries)},
        "weight_map": {entry.name: name for name, shard in zip(names, shards, strict=True) for entry in shard},
    }
    return [*written, write_hashed(folder / f"{stem}.safetensors.index.json", json.dumps(index, indent=2).encode())]


def write_hashed(path: Path, content: bytes) -> WrittenFile:
    """Write a small file. Raises OSError."""
    path.write_bytes(content)
    return WrittenFile(name=path.name, num_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _split(entries: Sequence[TensorEntry], shard_bytes: int) -> list[list[TensorEntry]]:
    shards: list[list[TensorEntry]] = [[]]
    filled = 0
    for entry in entries:
        if shards[-1] and filled + entry.num_bytes > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(entry)
        filled += entry.num_bytes
    return shards


def _write_file(path: Path, entries: Sequence[TensorEntry]) -> WrittenFile:
    # Wide elements first: every tensor then begins at a multiple of its element's size, as readers that map the file
    # want it. A file of one dtype keeps its order.
    ordered = sorted(entries, key=lambda entry: -entry.dtype.itemsize)
    header = _header(ordered)
    digest = hashlib.sha256(header)
    num_bytes = len(header)
    with path.open("wb") as file:
        file.write(header)
        for entry in ordered:
            num_bytes += _write_tensor(file, entry, digest.update)
    return WrittenFile(name=path.name, num_bytes=num_bytes, sha256=digest.hexdigest())


def _header(entries: Sequence[TensorEntry]) -> bytes:
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for entry in entries:
        end = start + entry.num_bytes
        table[entry.name] = {"dtype": _WORDS[entry.dtype], "shape": entry.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _write_tensor(file: BinaryIO, entry: TensorEntry, hash_part: Callable[[Any], None]) -> int:
    found = entry.read()
    if isinstance(found, torch.Tensor) and tuple(found.shape) != entry.shape:
        raise AssertionError(f"{entry.name} was announced with shape {entry.shape} and has {tuple(found.shape)}")
    written = 0
    for piece in [found] if isinstance(found, torch.Tensor) else found:
        if piece.dtype is not entry.dtype:
            raise AssertionError(f"{entry.name} was announced as {entry.dtype} and is {piece.dtype}")
        content: Any = piece.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        hash_part(content)
        file.write(content)
        written += content.nbytes
    if written != entry.num_bytes:
        raise AssertionError(f"{entry.name} was announced with {entry.num_bytes} bytes and has {written}")
    return written
