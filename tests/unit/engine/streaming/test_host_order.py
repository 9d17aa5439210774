"""What each plane is told of the openings of an optimizer step."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import pytest
import torch

from horizon_app.contracts.residency import Direction
from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Use
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import Opening, Plane, PlaneName, Visit
from horizon_app.engine.memory.resident_plane import ResidentPlane
from horizon_app.engine.streaming.host_order import expect_schedule
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.streaming.schedule import ComputeStep, Schedule


class ToldPlane(ResidentPlane):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__([0, 1], torch.float32)
        self.told: tuple[list[Visit], frozenset[Opening]] | None = None

    def expect(self, visits: Sequence[Visit], *, from_second_cycle: frozenset[Opening] = frozenset()) -> None:
        self.told = list(visits), from_second_cycle

    def opened(self, page: int, opening: Opening) -> AbstractContextManager[torch.Tensor]:
        raise AssertionError("an order is told, nothing is opened")


def cut() -> Partition:
    """Embedding of one block, a layer of two, head of one: blocks 0, 1, 2, 3."""
    rows = {"embed": 1, "L0": 2, "head": 1}
    stages = [
        (name, [ParameterFacts(name=name, shape=(count, 16), use=Use.LINEAR, decay=True)])
        for name, count in rows.items()
    ]
    return partition(stages, block_bytes=64, element_bytes=4)


SCHEDULE = Schedule(
    steps=(
        ComputeStep(stage=1, direction=Direction.FORWARD, start=0, end=2),
        ComputeStep(stage=2, direction=Direction.BACKWARD, start=2, end=3),
        ComputeStep(stage=1, direction=Direction.BACKWARD, start=3, end=5),
    ),
    accesses=(1, 2, 3, 2, 1),
)


def told(update_order: list[int], *, whole: bool) -> dict[PlaneName, ToldPlane]:
    planes = {name: ToldPlane() for name in PlaneName if name is not PlaneName.WEIGHT}
    planes[PlaneName.WEIGHT] = planes[PlaneName.MASTER] if whole else ToldPlane()
    made: dict[PlaneName, Plane] = {name: plane for name, plane in planes.items()}  # noqa: C416 - another value type
    expect_schedule(HostPool(cut(), made), cut(), SCHEDULE, update_order)
    return planes


@pytest.mark.parametrize(("whole", "update"), [(True, Opening.CHANGE), (False, Opening.FILL)], ids=["fp32", "bf16"])
def test_host_order_weights_are_updated_before_the_stage_that_reads_them(whole: bool, update: Opening) -> None:
    """The first step reads weights that are updated already."""
    plane = told([0, 1, 2], whole=whole)[PlaneName.WEIGHT]
    updates = [Visit(block, update, reads=whole) for block in range(4)]
    visits = [*updates[:3], Visit(1), Visit(2), updates[3], Visit(3), Visit(2), Visit(1)]
    assert plane.told == (visits, {update})


def test_host_order_of_a_tied_head_updates_it_with_the_embedding() -> None:
    plane = told([0, 2, 1], whole=True)[PlaneName.WEIGHT]
    assert plane.told is not None
    assert [visit.page for visit in plane.told[0]] == [0, 3, 1, 2, 1, 2, 3, 2, 1]


def test_host_order_what_the_optimizer_alone_opens_comes_in_the_order_of_updates() -> None:
    planes = told([0, 2, 1], whole=False)
    blocks = (0, 3, 1, 2)
    for name in (PlaneName.MASTER, PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ, PlaneName.GRAD_AVERAGE):
        assert planes[name].told == ([Visit(block, Opening.CHANGE) for block in blocks], frozenset()), name
    assert planes[PlaneName.GRAD].told == ([Visit(block, Opening.CONSUME) for block in blocks], frozenset())
