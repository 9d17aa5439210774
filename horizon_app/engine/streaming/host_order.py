"""The order in which an optimizer step opens the pages of each plane, so that those on disk are read in time."""

from collections.abc import Sequence

from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import Opening, PlaneName, Visit
from horizon_app.engine.streaming.schedule import Schedule


def expect_schedule(pool: HostPool, partition: Partition, schedule: Schedule, update_order: Sequence[int]) -> None:
    """Tell every plane what a step with this schedule opens. `update_order` names the stages as they are updated."""
    updated = [block.index for stage in update_order for block in partition.stage_blocks[stage]]
    changes = [Visit(block) for block in updated]
    whole = pool.planes[PlaneName.WEIGHT] is pool.planes[PlaneName.MASTER]
    weights = _weight_visits(partition, schedule, update_order, update_reads=whole)
    for name, plane in pool.planes.items():
        match name:
            case PlaneName.WEIGHT:
                plane.expect(weights, frozenset({Opening.READ, Opening.CHANGE if whole else Opening.FILL}))
            case PlaneName.MASTER if whole:
                pass
            case PlaneName.GRAD:  # gathered from the last stage to the first, so the first to be used up stays longest
                plane.expect(changes, frozenset({Opening.CONSUME}))
            case _:
                plane.expect(changes, frozenset({Opening.CHANGE}))


def expect_forward(pool: HostPool, partition: Partition, schedule: Schedule) -> None:
    """Tell the weights what a pass without gradients opens; no other plane is asked."""
    visits = _weight_visits(partition, schedule, (), update_reads=False)
    pool.planes[PlaneName.WEIGHT].expect(visits, frozenset({Opening.READ}))


def _weight_visits(
    partition: Partition, schedule: Schedule, update_order: Sequence[int], *, update_reads: bool
) -> list[Visit]:
    """Each stage's update, and then what its compute steps fetch."""
    to_update = list(update_order)
    visits: list[Visit] = []
    for step in schedule.steps:
        while step.stage in to_update:
            blocks = partition.stage_blocks[to_update.pop(0)]
            visits += [Visit(block.index, reads=update_reads) for block in blocks]
        visits += [Visit(block) for block in schedule.accesses[step.start : step.end]]
    return visits
