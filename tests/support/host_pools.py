"""Host tiers for tests: whole in RAM, or paged to a disk with few frames."""

from pathlib import Path

import torch

from horizon_app.contracts.run_spec import OptimizerState, Policy
from horizon_app.engine.memory.disk_io import OS_DISK, DiskSystem
from horizon_app.engine.memory.disk_tier import DiskTier
from horizon_app.engine.memory.geometry import Parameter, Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.placement import Placement
from horizon_app.engine.memory.planes import Opening, PlaneName
from horizon_app.engine.training.host_tier import HostFactory, HostLayout


def host_pool(
    partition: Partition, dtype: torch.dtype = torch.float32, *, folder: Path = Path("no-disk"),
    frames: int | None = None, system: DiskSystem = OS_DISK, averages: bool = False, reads_straight: bool = False,
) -> HostPool:  # fmt: skip
    """All planes of `partition`; with `frames`, each has so many in RAM and its pages in a file in `folder`."""
    layout = HostLayout(partition, dtype, OptimizerState.FP32, averages=averages)
    disk = DiskTier(folder, system=system)
    factory = HostFactory(disk, policy=Policy.OPTIMAL, pinned=False, reads_straight=reads_straight)
    placement = Placement(frames=dict.fromkeys(layout.planes, frames), host_bytes=0)
    return factory.new_pool(partition, layout, placement)


def fill_parameters(partition: Partition, pool: HostPool, seed: int = 0) -> None:
    """Normal numbers, other ones in every parameter."""
    draw = torch.Generator().manual_seed(seed)
    for parameter in partition.parameters:
        pool.write(parameter, torch.randn(parameter.shape, generator=draw))


def read_all(partition: Partition, pool: HostPool, name: PlaneName = PlaneName.MASTER) -> dict[str, torch.Tensor]:
    """A copy of every parameter on one plane."""
    return {parameter.name: pool.read(parameter, name) for parameter in partition.parameters}


def write_plane(
    partition: Partition, pool: HostPool, name: PlaneName, parameter: Parameter, values: torch.Tensor
) -> None:
    """Set a parameter on one plane alone. Shape: the parameter's."""
    flat = values.reshape(-1)
    for segment in partition.segments_in(parameter):
        start = segment.pool_start - parameter.pool_start
        with pool.segment(name, segment).opened(Opening.CHANGE) as part:
            part.copy_(flat[start : start + segment.numel])
