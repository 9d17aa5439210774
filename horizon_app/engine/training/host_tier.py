"""Builds the host tier: planes in RAM, planes paged to one file, as the placement says."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from horizon_app.contracts.run_spec import OptimizerState, Policy
from horizon_app.engine.errors import TierExhausted
from horizon_app.engine.memory.disk_io import round_up
from horizon_app.engine.memory.disk_store import bytes_on_disk
from horizon_app.engine.memory.disk_tier import DiskTier
from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.paged_plane import FEWEST_FRAMES, PagedPlane
from horizon_app.engine.memory.placement import Placement
from horizon_app.engine.memory.planes import Plane, PlaneName
from horizon_app.engine.memory.resident_plane import ResidentPlane
from horizon_app.engine.optim.moments8 import packed_bytes
from horizon_app.engine.policy.choose import make_policy


class HostLayout:
    """Planes of a model: which there are, their dtype and the elements of their pages."""

    def __init__(
        self, partition: Partition, compute_dtype: torch.dtype, optimizer_state: OptimizerState | None, *,
        averages: bool = False,
    ) -> None:  # fmt: skip
        """Without `optimizer_state` nothing is trained: there are weights alone."""
        sizes = [block.numel for block in partition.blocks]
        self.planes: dict[PlaneName, tuple[torch.dtype, list[int]]] = {}
        if optimizer_state is None:
            self.planes[PlaneName.WEIGHT] = (compute_dtype, sizes)
            return
        packed = optimizer_state is OptimizerState.INT8
        moments = [packed_bytes(size) for size in sizes] if packed else sizes
        moment_dtype = torch.uint8 if packed else torch.float32
        self.planes |= {
            PlaneName.GRAD: (torch.float32, sizes),
            PlaneName.MASTER: (torch.float32, sizes),
            PlaneName.EXP_AVG: (moment_dtype, moments),
            PlaneName.EXP_AVG_SQ: (moment_dtype, moments),
        }
        if compute_dtype != torch.float32:
            self.planes[PlaneName.WEIGHT] = (compute_dtype, sizes)
        if averages:
            self.planes[PlaneName.GRAD_AVERAGE] = (torch.float32, sizes)

    @property
    def weight_plane(self) -> PlaneName:
        """The plane that products read: the masters themselves where they compute in fp32."""
        return PlaneName.WEIGHT if PlaneName.WEIGHT in self.planes else PlaneName.MASTER

    def page_bytes(self) -> dict[PlaneName, list[int]]:
        """Bytes of every page of every plane."""
        return {name: [n * dtype.itemsize for n in numels] for name, (dtype, numels) in self.planes.items()}

    def disk_bytes(self, placement: Placement) -> int:
        """Bytes of the file that holds what is paged."""
        paged = [sizes for name, sizes in self.page_bytes().items() if placement.frames[name] is not None]
        return sum(bytes_on_disk(size) for sizes in paged for size in sizes)


@dataclass(frozen=True, kw_only=True, slots=True)
class InputRoom:
    """What layer inputs take of the host tier, a page for each layer and sequence; no pages: they don't wait there."""

    num_pages: int
    page_numel: int
    dtype: torch.dtype
    limit: int  # bytes of RAM, beyond which they go to disk
    may_page: bool

    @property
    def page_bytes(self) -> int:
        """Bytes of a page."""
        return self.page_numel * self.dtype.itemsize

    @property
    def least_bytes(self) -> int:
        """Bytes of RAM that they can't do without."""
        frames = FEWEST_FRAMES * round_up(self.page_bytes)
        return min(self._whole, frames) if self.may_page else self._whole

    @property
    def frames(self) -> int | None:
        """Pages that stay in RAM at once; None: all, one behind the other."""
        if self._whole <= self.limit or not self.may_page:
            return None
        return max(FEWEST_FRAMES, self.limit // round_up(self.page_bytes))

    @property
    def host_bytes(self) -> int:
        """Bytes of RAM."""
        return self._whole if self.frames is None else self.frames * round_up(self.page_bytes)

    @property
    def disk_bytes(self) -> int:
        """Bytes of their file."""
        return 0 if self.frames is None else self.num_pages * bytes_on_disk(self.page_bytes)

    @property
    def _whole(self) -> int:
        return self.num_pages * self.page_bytes


class HostFactory:
    """Takes the host tier's memory and the disk tier's files; knows where they go."""

    def __init__(self, disk: DiskTier, *, policy: Policy, pinned: bool, reads_straight: bool) -> None:
        """`reads_straight`: weights on disk are read into the arena itself."""
        self.disk, self._policy, self._pinned, self._reads_straight = disk, policy, pinned, reads_straight

    def new_pool(self, partition: Partition, layout: HostLayout, placement: Placement) -> HostPool:
        """Planes in RAM, and planes paged to one file. Raises TierExhausted, DiskFull, DiskUnusable."""
        paged = {name: frames for name, frames in placement.frames.items() if frames is not None}
        page_bytes = layout.page_bytes()
        store = self.disk.new_store([size for name in paged for size in page_bytes[name]]) if paged else None
        planes: dict[PlaneName, Plane] = {}
        first_pages = dict(zip(paged, range(0, len(paged) * len(partition.blocks), len(partition.blocks)), strict=True))
        for name, (dtype, numels) in layout.planes.items():
            frames = paged.get(name)
            if store is None or frames is None:
                planes[name] = ResidentPlane(_starts(numels), dtype)
            else:
                policy = make_policy(self._policy, frames)
                first_page = first_pages[name]
                planes[name] = PagedPlane(
                    store, first_page, numels, dtype, num_frames=frames, policy=policy,
                    reads_straight=self._reads_straight and name is layout.weight_plane,
                )  # fmt: skip
        if PlaneName.WEIGHT not in planes:
            planes[PlaneName.WEIGHT] = planes[PlaneName.MASTER]
        return HostPool(partition, planes, store=store, pinned=self._pinned)

    def new_input_plane(self, room: InputRoom) -> Plane:
        """A plane for layer inputs, paged to a file of its own where it must be.

        Raises TierExhausted, DiskFull, DiskUnusable.
        """
        numels = [room.page_numel] * room.num_pages
        if not room.may_page and room.host_bytes > room.limit:
            fix = "raise offload.host_memory, or set offload.disk to auto"
            raise TierExhausted(tier="host", needed_bytes=room.host_bytes, free_bytes=room.limit, fix=fix)
        if room.frames is None:
            return ResidentPlane(_starts(numels), room.dtype)
        store = self.disk.new_store([room.page_bytes] * room.num_pages)
        policy = make_policy(self._policy, room.frames)
        return PagedPlane(store, 0, numels, room.dtype, num_frames=room.frames, policy=policy, owns_store=True)


def _starts(numels: Sequence[int]) -> list[int]:
    starts = [0]
    for numel in numels:
        starts.append(starts[-1] + numel)
    return starts
