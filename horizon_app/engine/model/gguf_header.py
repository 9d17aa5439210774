"""The header of a GGUF file: what it says about itself and the table of its tensors. Reads no weights.

The gguf package reads the same, but takes many seconds for the vocabulary, which nobody asks for here.
"""

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from horizon_app.engine.errors import WeightsUnusable

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufTensor:
    """One line of the table of tensors."""

    name: str
    elements: int
    encoding: str
    end: int  # bytes from the start of the tensors' data


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufHeader:
    """What a GGUF file says about itself. Arrays of its metadata are left out."""

    metadata: Mapping[str, str | float | bool]
    tensors: tuple[GgufTensor, ...]
    data_start: int  # bytes from the start of the file

    @property
    def architecture(self) -> str:
        """The family of the model in llama.cpp's words."""
        return str(self.metadata.get("general.architecture", ""))

    @property
    def encoding(self) -> str:
        """The encoding that holds most elements, for example Q4_1."""
        elements: dict[str, int] = {}
        for tensor in self.tensors:
            elements[tensor.encoding] = elements.get(tensor.encoding, 0) + tensor.elements
        return max(elements, key=lambda encoding: elements[encoding])

    def vector(self, path: Path, name: str) -> list[float]:
        """The numbers of a small fp32 tensor of the file `path`. Raises WeightsUnusable for another encoding."""
        tensor = next(tensor for tensor in self.tensors if tensor.name == name)
        if tensor.encoding != "F32":
            raise WeightsUnusable(f"{path}: {name} is encoded as {tensor.encoding}, only F32 is read")
        with path.open("rb") as file:
            file.seek(self.data_start + tensor.end - 4 * tensor.elements)
            return list(struct.unpack(f"<{tensor.elements}f", file.read(4 * tensor.elements)))


def read_gguf_header(path: Path) -> GgufHeader:
    """The header, after making sure that the file is whole. Raises WeightsUnusable, also OSError."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise WeightsUnusable(f"{path} is not a GGUF file: it does not begin with the letters GGUF")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                return _read(_Cursor(content), path)
            except (struct.error, UnicodeDecodeError, OverflowError, RecursionError) as failure:
                raise WeightsUnusable(f"{path} is cut short or damaged: its header can't be read") from failure


class _Cursor:
    """Reads little-endian values one after the other."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content, self.position = content, len(MAGIC)

    def number(self, code: str) -> float:
        """One number in struct's code."""
        (value,) = struct.unpack_from(f"<{code}", self.content, self.position)
        self.position += struct.calcsize(f"<{code}")
        return value

    def count(self, code: str = "Q") -> int:
        """A number of things."""
        return int(self.number(code))

    def text(self) -> str:
        """A string with its length before it."""
        length = self.count()
        (value,) = struct.unpack_from(f"{length}s", self.content, self.position)
        self.position += length
        return value.decode("utf-8")

    def value(self, kind: int) -> str | float | None:
        """A value of the metadata; None for an array, which is passed over."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise struct.error(f"unknown type {kind}")
        inner, length = self.count("I"), self.count()
        if inner in _NUMBERS:
            self.position += length * struct.calcsize(_NUMBERS[inner])
        else:
            for _ in range(length):
                self.value(inner)
        return None


def _read(cursor: _Cursor, path: Path) -> GgufHeader:
    version = cursor.count("I")
    if version not in VERSIONS:
        raise WeightsUnusable(f"{path} is a GGUF file of version {version}; versions 2 and 3 (little-endian) are read")
    num_tensors, num_values = cursor.count(), cursor.count()
    metadata: dict[str, str | float | bool] = {}
    for _ in range(num_values):
        key = cursor.text()
        value = cursor.value(cursor.count("I"))
        if value is not None:
            metadata[key] = value
    tensors = tuple(_read_tensor(cursor, path) for _ in range(num_tensors))
    if not tensors:
        raise WeightsUnusable(f"{path} holds no tensors")
    alignment = int(metadata.get("general.alignment", 32))
    data_start = math.ceil(cursor.position / alignment) * alignment
    promised = data_start + max(tensor.end for tensor in tensors)
    if promised > len(cursor.content):
        raise WeightsUnusable(
            f"{path} is cut short: it has {len(cursor.content)} bytes, its header tells of {promised}"
        )
    return GgufHeader(metadata=metadata, tensors=tensors, data_start=data_start)


def _read_tensor(cursor: _Cursor, path: Path) -> GgufTensor:
    name = cursor.text()
    elements = math.prod([cursor.count() for _ in range(cursor.count("I"))])
    kind, offset = cursor.count("I"), cursor.count()
    try:
        encoding = GGMLQuantizationType(kind)
    except ValueError as failure:
        raise WeightsUnusable(f"{path}: {name} has the unknown encoding {kind}") from failure
    block_elements, block_bytes = GGML_QUANT_SIZES[encoding]
    end = offset + elements // block_elements * block_bytes
    return GgufTensor(name=name, elements=elements, encoding=encoding.name, end=end)
