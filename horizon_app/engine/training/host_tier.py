"""Builds the host tier: planes in RAM, planes paged to one file, as the placement says."""

from collections.abc import Sequence
from pathlib import Path

import torch

from horizon_app.contracts.run_spec import OptimizerState, Policy
from horizon_app.engine.memory.disk_io import OS_DISK, DiskSystem, round_up
from horizon_app.engine.memory.disk_store import DiskStore
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


class HostFactory:
    """Takes the host tier's memory and the disk tier's files; knows where they go."""

    def __init__(
        self, *, disk_dir: Path, disk_limit: int | None, input_limit: int | None, policy: Policy, pinned: bool,
        system: DiskSystem = OS_DISK,
    ) -> None:  # fmt: skip
        """Layer inputs beyond `input_limit` bytes go to disk; None: all stay in RAM."""
        self._dir, self._limit, self._input_limit = disk_dir, disk_limit, input_limit
        self._policy, self._pinned, self._system = policy, pinned, system

    def new_pool(self, partition: Partition, layout: HostLayout, placement: Placement) -> HostPool:
        """Planes in RAM, and planes paged to one file. Raises TierExhausted, DiskFull, DiskUnusable."""
        paged = {name: frames for name, frames in placement.frames.items() if frames is not None}
        page_bytes = layout.page_bytes()
        store: DiskStore | None = None
        if paged:
            sizes = [size for name in paged for size in page_bytes[name]]
            store = DiskStore(self._dir, sizes, limit_bytes=self._limit, system=self._system)
        planes: dict[PlaneName, Plane] = {}
        first_pages = dict(zip(paged, range(0, len(paged) * len(partition.blocks), len(partition.blocks)), strict=True))
        for name, (dtype, numels) in layout.planes.items():
            frames = paged.get(name)
            if store is None or frames is None:
                planes[name] = ResidentPlane(_starts(numels), dtype)
            else:
                policy = make_policy(self._policy, frames)
                first_page = first_pages[name]
                planes[name] = PagedPlane(store, first_page, numels, dtype, num_frames=frames, policy=policy)
        if PlaneName.WEIGHT not in planes:
            planes[PlaneName.WEIGHT] = planes[PlaneName.MASTER]
        return HostPool(partition, planes, store=store, pinned=self._pinned)

    def new_plane(self, numels: Sequence[int], dtype: torch.dtype) -> Plane:
        """A plane of its own for layer inputs: in RAM as far as the limit goes, else paged to a file of its own."""
        page_bytes = max(numels) * dtype.itemsize
        if self._input_limit is None or page_bytes * len(numels) <= self._input_limit:
            return ResidentPlane(_starts(numels), dtype)
        frames = max(FEWEST_FRAMES, self._input_limit // round_up(page_bytes))
        store = DiskStore(self._dir, [page_bytes] * len(numels), limit_bytes=self._limit, system=self._system)
        policy = make_policy(self._policy, frames)
        return PagedPlane(store, 0, numels, dtype, num_frames=frames, policy=policy, owns_store=True)


def _starts(numels: Sequence[int]) -> list[int]:
    starts = [0]
    for numel in numels:
        starts.append(starts[-1] + numel)
    return starts
