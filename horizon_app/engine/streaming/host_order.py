"""The order in which an optimizer step opens the pages of each plane, so that those on disk are read in time."""

from collections.abc import Sequence

from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import Opening, PlaneName, Visit
from horizon_app.engine.streaming.schedule import Schedule


def expect_schedule(pool: HostPool, partition: Partition, schedule: Schedule, update_order: Sequence[int]) -> None:
    """Tell every plane what steps with this schedule open, from one on whose weights are updated already.

    `update_order` names the stages as they are updated.
    """
    updated = [block.index for stage in update_order for block in partition.stage_blocks[stage]]
    whole = pool.planes[PlaneName.WEIGHT] is pool.planes[PlaneName.MASTER]
    update = Opening.CHANGE if whole else Opening.FILL
    for name, plane in pool.planes.items():
        match name:
            case PlaneName.WEIGHT:
                visits = _weight_visits(partition, schedule, update_order, update)
                plane.expect(visits, from_second_cycle=frozenset({update}))
            case PlaneName.MASTER if whole:
                pass
            case PlaneName.GRAD:  # gathered from the last stage to the first, so the first to be used up stays longest
                plane.expect([Visit(block, Opening.CONSUME) for block in updated])
            case _:
                plane.expect([Visit(block, Opening.CHANGE) for block in updated])


def expect_forward(pool: HostPool, partition: Partition, schedule: Schedule) -> None:
    """Tell the weights what a pass without gradients opens; no other plane is asked."""
    pool.planes[PlaneName.WEIGHT].expect(_weight_visits(partition, schedule, (), Opening.FILL))


def _weight_visits(
    partition: Partition, schedule: Schedule, update_order: Sequence[int], update: Opening
) -> list[Visit]:
    """Each stage's update, and then what its compute steps fetch."""
    to_update = list(update_order)
    visits: list[Visit] = []
    for step in schedule.steps:
        while step.stage in to_update:
            blocks = partition.stage_blocks[to_update.pop(0)]
            visits += [Visit(block.index, update, reads=update is not Opening.FILL) for block in blocks]
        visits += [Visit(block) for block in schedule.accesses[step.start : step.end]]
    return visits
