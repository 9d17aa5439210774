"""The host tier: every plane of every block, in RAM or paged to disk. The authoritative copy of the model.

With fp32 compute the weight plane is the master plane itself; otherwise it is a copy in the compute dtype that the
optimizer rewrites.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from horizon_app.engine.memory.disk_queue import DiskEvent
from horizon_app.engine.memory.disk_store import DiskStore
from horizon_app.engine.memory.geometry import Block, Parameter, Partition, Segment
from horizon_app.engine.memory.pinning import PinnedMemory
from horizon_app.engine.memory.planes import DiskState, Opening, Plane, PlaneName
from horizon_app.engine.memory.resident_plane import ResidentPlane


@dataclass(frozen=True, slots=True)
class HostSpan:
    """Elements [`start`, `end`) of one page of a plane."""

    plane: Plane
    page: int
    start: int
    end: int
    reading: Opening = Opening.READ  # how whoever reads it opens it; CONSUME where that is the last time

    @property
    def numel(self) -> int:
        """Elements."""
        return self.end - self.start

    @contextmanager
    def opened(self, opening: Opening) -> Generator[torch.Tensor]:
        """The elements, for the length of the context. Shape: [numel]. Waits for the disk; raises EngineError."""
        with self.plane.opened(self.page, opening) as page:
            yield page[self.start : self.end]

    def read_straight(self, memory: torch.Tensor) -> DiskEvent | None:
        """Begin to read the elements from the disk into `memory`, past the host tier; None: open them instead.

        Shape: [numel or more]; what lies behind them in it is lost. Raises EngineError.
        """
        if self.start or self.reading is not Opening.READ:
            return None
        return self.plane.read_straight(self.page, memory)

    def in_ram(self) -> torch.Tensor | None:
        """The elements, where they never leave RAM; else None."""
        return self.plane.page(self.page)[self.start : self.end] if isinstance(self.plane, ResidentPlane) else None


class HostPool:
    """fp32 masters, moments and gradients, and the weights in the compute dtype."""

    def __init__(
        self, partition: Partition, planes: Mapping[PlaneName, Plane], *, store: DiskStore | None = None,
        pinned: bool = False,
    ) -> None:  # fmt: skip
        self._partition, self.planes, self.store = partition, dict(planes), store
        self._distinct: list[Plane] = list({id(plane): plane for plane in planes.values()}.values())
        self._pinned = PinnedMemory()
        for tensor in self.planes[PlaneName.WEIGHT].memory if pinned else ():
            self._pinned.add(tensor)

    @property
    def num_bytes(self) -> int:
        """Bytes of host memory that all planes take."""
        return sum(plane.num_bytes for plane in self._distinct)

    def block(self, name: PlaneName, block: Block) -> HostSpan:
        """A block on one plane."""
        return HostSpan(self.planes[name], block.index, 0, block.numel)

    def segment(self, name: PlaneName, segment: Segment) -> HostSpan:
        """A segment on one plane."""
        return HostSpan(self.planes[name], segment.block, segment.block_start, segment.block_start + segment.numel)

    def read(self, parameter: Parameter, name: PlaneName = PlaneName.MASTER) -> torch.Tensor:
        """A copy of a parameter on one plane; there are no masters where nothing is trained. Shape: the parameter's."""
        copy: torch.Tensor | None = None
        for segment in self._partition.segments_in(parameter):
            with self.segment(name, segment).opened(Opening.GLANCE) as part:
                if copy is None:
                    copy = torch.empty(parameter.numel, dtype=part.dtype)
                start = segment.pool_start - parameter.pool_start
                copy[start : start + segment.numel] = part
        if copy is None:
            raise AssertionError(f"{parameter.name} has no segment")
        return copy.view(parameter.shape)

    def write(self, parameter: Parameter, values: torch.Tensor, start: int = 0) -> None:
        """Set a parameter's master from element `start` on, and its weights.

        Shape of values: any, in the parameter's order and any floating dtype.
        """
        flat = values.reshape(-1)
        end = start + flat.numel()
        # The weights may be the masters themselves, and where nothing is trained there are no masters.
        planes = {id(self.planes[name]): name for name in (PlaneName.WEIGHT, PlaneName.MASTER) if name in self.planes}
        for name in planes.values():
            for segment in self._partition.segments_in(parameter):
                first = segment.pool_start - parameter.pool_start
                low, high = max(first, start), min(first + segment.numel, end)
                if low < high:
                    with self.segment(name, segment).opened(Opening.CHANGE) as part:
                        part[low - first : high - first] = flat[low - start : high - start]

    def rows(self, parameter: Parameter, rows: torch.Tensor) -> torch.Tensor:
        """Some rows of an embedding's weights. Shapes: rows [R] int64, sorted; answer [R, width]."""
        width = parameter.shape[1]
        found: list[torch.Tensor] = []
        for segment, inside in rows_by_segment(self._partition, parameter, rows):
            with self.segment(PlaneName.WEIGHT, segment).opened(Opening.GLANCE) as part:
                found.append(part.view(-1, width).index_select(0, rows[inside] - segment.row_start))
        return torch.cat(found) if len(found) != 1 else found[0]

    def disk_state(self, block: int) -> DiskState:
        """What the disk has to do with the block now: the busiest of its planes."""
        states = {plane.on_disk(block) for plane in self._distinct if plane.is_paged}
        for state in (DiskState.WRITING, DiskState.READING, DiskState.ON_DISK):
            if state in states:
                return state
        return DiskState.IN_RAM

    def close(self) -> None:
        """Give back page locks, memory and the disk tier's file."""
        self._pinned.close()
        if self.store is not None:
            self.store.close()
        for plane in self._distinct:
            plane.close()


def rows_by_segment(partition: Partition, parameter: Parameter, rows: torch.Tensor) -> Iterator[tuple[Segment, slice]]:
    """The segments that hold some of the sorted `rows`, each with the part of `rows` that it holds."""
    segments = partition.segments_in(parameter)
    ends = torch.searchsorted(rows, torch.tensor([segment.row_end for segment in segments])).tolist()
    start = 0
    for segment, end in zip(segments, ends, strict=True):
        if end > start:
            yield segment, slice(start, end)
        start = end
