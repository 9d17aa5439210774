"""From a checkpoint to a model folder that anybody can load, in the dtype asked; tensor by tensor, and read back.

Reads a checkpoint's files only, never a live engine. Holds one tensor at a time.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from horizon_app.contracts.sizes import show_bytes
from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.model.companions import read_companions
from horizon_app.engine.model.discovery import build_meta, discover, load_config
from horizon_app.engine.model.stored_tensors import BITS, StoredTensors
from horizon_app.engine.model.tensor_writer import TensorEntry, WrittenFile, write_hashed, write_tensors

OnStage = Callable[[str], None]
PIECE_ELEMENTS = 4 << 20
"""Elements of a tensor that are cast and compared at a time."""
ROOM_BYTES = 64 << 20
"""Left free on the target's volume besides what is written."""
CONFIG, TEMPLATE = "config.json", "chat_template.jinja"
_DTYPE_KEYS = ("dtype", "torch_dtype")


class ExportImpossible(WeightsUnusable):
    """The checkpoint can't be written as asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A checkpoint, opened: its tensors, each once, and its config."""

    folder: Path
    stored: StoredTensors
    names: tuple[str, ...]  # a tied head is left out
    config: dict[str, Any]  # config.json
    tied: bool
    chat_template: str | None = None  # in place of the tokenizer's own

    @property
    def fused_experts(self) -> list[str]:
        """Tensors that hold all experts of a layer in one, as transformers keeps them in memory."""
        return [name for name in self.names if ".experts." in name and len(self.stored.tensors[name].shape) == 3]

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(self.stored.tensors[name].numel for name in self.names)

    def tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """A tensor in another dtype. Raises ExportImpossible where that makes values infinite, or they are so."""
        shape = self.stored.tensors[name].shape
        made = torch.empty(self.stored.tensors[name].numel, dtype=dtype)
        for start, piece in self.pieces(name):
            made[start : start + piece.numel()] = piece
            part = made[start : start + piece.numel()]
            if not bool(torch.isfinite(part).all()):
                raise ExportImpossible(_not_finite(name, piece, dtype))
        return made.view(shape)

    def pieces(self, name: str) -> Iterator[tuple[int, torch.Tensor]]:
        """First element and values, flat, of parts of a tensor that need little memory."""
        return _pieces(self.stored, name)


def open_checkpoint(folder: Path, chat_template: str | None = None) -> Source:
    """Look at a checkpoint without reading a value; `chat_template` replaces the tokenizer's own.

    Raises WeightsUnusable, UnsupportedModel.
    """
    stored = StoredTensors(folder)
    odd = [name for name, tensor in stored.tensors.items() if tensor.dtype not in BITS]
    if odd:
        raise WeightsUnusable(f"{folder}: {odd[0]} is stored as {stored.tensors[odd[0]].dtype}, which is no float")
    aliases = discover(build_meta(load_config(folder))).aliases
    twice = {head for head, embedding in aliases.items() if embedding in stored.tensors}
    config = cast(dict[str, Any], json.loads((folder / CONFIG).read_bytes()))
    names = tuple(name for name in stored.tensors if name not in twice)
    return Source(
        folder=folder, stored=stored, names=names, config=config, tied=bool(aliases), chat_template=chat_template
    )


def write_safetensors(
    source: Source, folder: Path, dtype: torch.dtype, *, shard_bytes: int, on_stage: OnStage
) -> list[WrittenFile]:
    """Fill the empty `folder` with weights, config and companions. Raises ExportImpossible, OSError."""
    companions = read_companions(source.folder)
    needed = source.parameters * dtype.itemsize + sum(len(content) for content in companions.values())
    require_room(folder, needed)
    entries = [
        TensorEntry(
            name=name, dtype=dtype, shape=source.stored.tensors[name].shape,
            read=lambda name=name: source.tensor(name, dtype),
        )
        for name in source.names
    ]  # fmt: skip
    on_stage(f"writing {len(entries)} tensors, {show_bytes(needed)}")
    written = write_tensors(folder, entries, shard_bytes=shard_bytes)
    source.stored.close()
    text = json.dumps(_config_of(source, dtype), indent=2, ensure_ascii=False) + "\n"
    companions[CONFIG] = text.encode()
    if source.chat_template is not None:  # what the model was trained with, though its tokenizer does not bring it
        companions[TEMPLATE] = source.chat_template.encode()
    return [*written, *(write_hashed(folder / name, content) for name, content in companions.items())]


def compare_safetensors(source: Source, folder: Path, dtype: torch.dtype) -> int:
    """Read every written tensor back; answers how many are, bit for bit, what was meant. Raises ExportImpossible."""
    written = StoredTensors(folder)
    if set(written.tensors) != set(source.names):
        raise ExportImpossible(f"{folder} holds {len(written.tensors)} tensors instead of {len(source.names)}")
    for name in source.names:
        for (start, meant), (_, found) in zip(source.pieces(name), _pieces(written, name), strict=True):
            if found.dtype is not dtype or not torch.equal(meant.to(dtype), found):
                raise ExportImpossible(
                    f"{name} was read back from {written.tensors[name].path.name} and differs from what was written "
                    f"at element {start} or after; the volume may be damaged"
                )
    source.stored.close()
    written.close()
    return len(source.names)


def require_room(folder: Path, needed: int) -> None:
    """Raise ExportImpossible where the volume of `folder` has not enough free bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed + ROOM_BYTES:
        raise ExportImpossible(
            f"the export takes {show_bytes(needed)}, but the volume of the target has {show_bytes(free)} free "
            f"({show_bytes(ROOM_BYTES)} are left alone); make room, take another folder or a smaller dtype"
        )


def _pieces(stored: StoredTensors, name: str) -> Iterator[tuple[int, torch.Tensor]]:
    tensor = stored.tensors[name]
    if not tensor.shape:
        yield 0, stored.read(name).flatten()
        return
    width = max(1, tensor.numel // max(1, tensor.shape[0]))
    rows = max(1, PIECE_ELEMENTS // width)
    for first in range(0, tensor.shape[0], rows):
        last = min(first + rows, tensor.shape[0])
        yield first * width, stored.read_rows(name, first, last).flatten()


def _config_of(source: Source, dtype: torch.dtype) -> dict[str, Any]:
    """config.json with the dtype of the files, here and in parts of the model, and whether the head is tied."""
    word = str(dtype).removeprefix("torch.")

    def with_dtype(section: dict[str, Any]) -> dict[str, Any]:
        changed = {key: with_dtype(value) if isinstance(value, dict) else value for key, value in section.items()}
        return {**changed, **{key: word for key in _DTYPE_KEYS if key in section}}

    return {**with_dtype(source.config), "dtype": word, "tie_word_embeddings": source.tied}


def _not_finite(name: str, piece: torch.Tensor, dtype: torch.dtype) -> str:
    if not bool(torch.isfinite(piece).all()):
        return f"{name} holds values that are NaN or infinite: the checkpoint is damaged; export an earlier one"
    largest = float(piece.abs().max())
    return f"{name} holds {largest:.6g}, but {dtype} ends at {torch.finfo(dtype).max:.6g}; export as bf16 or fp32"
