"""Planes of the host tier as safetensors files and back, with one tensor for each parameter.

No file tells how the model was cut into blocks, nor where a block lived: what is written by one arena, tier limit or
block size is read by any other. Neither way holds more than a block beside the planes.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import torch

from horizon_app.contracts.run_spec import OptimizerState
from horizon_app.engine.errors import BuildStopped, CheckpointUnusable
from horizon_app.engine.memory.geometry import Block, Parameter, Partition, Segment
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import Opening, PlaneName
from horizon_app.engine.model.tensor_writer import TensorEntry
from horizon_app.engine.optim.moments8 import (
    QUANT_BLOCK,
    pack_signed,
    pack_unsigned,
    unpack_signed,
    unpack_unsigned,
)

PIECE = 1 << 20
"""Elements of an 8-bit moment that are unpacked at a time."""
_UNPACK = {PlaneName.EXP_AVG: unpack_signed, PlaneName.EXP_AVG_SQ: unpack_unsigned}
_PACK = {PlaneName.EXP_AVG: pack_signed, PlaneName.EXP_AVG_SQ: pack_unsigned}


class PlaneFiles:
    """The fp32 planes of one model: masters, moments, the moving average.

    Moments in 8 bits are written as the fp32 numbers that they stand for. Their scales belong to runs of elements of a
    block, so packed they would only fit the same blocks; and what was unpacked packs to the same bits again.
    """

    def __init__(
        self, partition: Partition, pool: HostPool, optimizer_state: OptimizerState,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        """`should_stop` is asked between two blocks that are read."""
        self._partition, self._pool, self._should_stop = partition, pool, should_stop
        self._segments_in: list[list[Segment]] = [[] for _ in partition.blocks]
        for segment in partition.segments:
            self._segments_in[segment.block].append(segment)
        self._packed = frozenset(_UNPACK) if optimizer_state is OptimizerState.INT8 else frozenset[PlaneName]()

    def entry(self, plane: PlaneName, parameter: Parameter, name: str) -> TensorEntry:
        """A parameter on one plane, to be written under `name`."""
        return TensorEntry(
            name=name, dtype=torch.float32, shape=parameter.shape, read=lambda: self._read(plane, parameter)
        )

    def fill(self, plane: PlaneName, folder: Path, stem: str) -> None:
        """Set the whole plane from the files in `folder`, block by block. Raises CheckpointUnusable, EngineError."""
        with ExitStack() as stack:
            stored = _Stored(stack, folder, stem)
            for block in self._partition.blocks:
                if self._should_stop():
                    raise BuildStopped(f"asked to stop while {stem} was read")
                self._fill_block(plane, block, stored)

    def _read(self, plane: PlaneName, parameter: Parameter) -> Iterator[torch.Tensor]:
        for segment in self._partition.segments_in(parameter):
            if plane in self._packed:
                yield from self._unpacked(plane, segment)
            else:
                with self._pool.segment(plane, segment).opened(Opening.GLANCE) as part:
                    yield part

    def _unpacked(self, plane: PlaneName, segment: Segment) -> Iterator[torch.Tensor]:
        numel = self._partition.blocks[segment.block].numel
        start, end = segment.block_start, segment.block_start + segment.numel
        with self._pool.planes[plane].opened(segment.block, Opening.GLANCE) as page:
            for low in range(start - start % QUANT_BLOCK, end, PIECE):  # runs are unpacked whole
                high = min(low + PIECE, -(-end // QUANT_BLOCK) * QUANT_BLOCK, numel)
                values = torch.empty(high - low)
                _UNPACK[plane](page, low, high, numel, values)
                yield values[max(start, low) - low : min(end, high) - low]

    def _fill_block(self, plane: PlaneName, block: Block, stored: "_Stored") -> None:
        values = torch.zeros(block.numel)
        for segment in self._segments_in[block.index]:
            parameter = self._partition.parameters[segment.parameter]
            first = segment.pool_start - parameter.pool_start
            stored.read(parameter, first, values[segment.block_start : segment.block_start + segment.numel])
        with self._pool.planes[plane].opened(block.index, Opening.FILL) as page:
            if plane in self._packed:
                _PACK[plane](values, page, 0, block.numel, block.numel)
            else:
                page.copy_(values)


@dataclass(frozen=True, slots=True)
class _Place:
    file: BufferedReader
    start: int  # byte of the first element
    dtype: str
    shape: tuple[int, ...]


class _Stored:
    """The tensors of one plane on disk, read piece by piece: pages of a mapped file would count as memory."""

    def __init__(self, stack: ExitStack, folder: Path, stem: str) -> None:
        self._what = f"{folder}: {stem}"
        self._places: dict[str, _Place] = {}
        index = folder / f"{stem}.safetensors.index.json"
        try:
            names = _shards(index) if index.exists() else [f"{stem}.safetensors"]
            for name in names:
                file = stack.enter_context((folder / name).open("rb"))
                self._places |= _header(file)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointUnusable(f"{self._what} can't be read: {error}") from error

    def read(self, parameter: Parameter, first: int, out: torch.Tensor) -> None:
        """Elements from `first` on of a parameter. Shape of out: [any number], fp32."""
        place = self._places.get(parameter.name)
        if place is None:
            raise CheckpointUnusable(f"{self._what} has no {parameter.name}")
        if place.shape != parameter.shape or place.dtype != "F32":
            raise CheckpointUnusable(
                f"{self._what} has {parameter.name} as {place.dtype} {list(place.shape)}, the model asks for F32 "
                f"{list(parameter.shape)}"
            )
        place.file.seek(place.start + first * out.element_size())
        array: Any = out.numpy()
        content = memoryview(array).cast("B")
        if place.file.readinto(content) != content.nbytes:
            raise CheckpointUnusable(f"{self._what} ends in the middle of {parameter.name}")


def _header(file: BufferedReader) -> dict[str, _Place]:
    table: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    start = file.tell()
    return {
        name: _Place(file, start + entry["data_offsets"][0], entry["dtype"], tuple(entry["shape"]))
        for name, entry in table.items()
        if name != "__metadata__"
    }


def _shards(index: Path) -> list[str]:
    weight_map: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    return sorted(set(weight_map.values()))
