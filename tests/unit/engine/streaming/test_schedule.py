import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.contracts.residency import Direction
from horizon_app.contracts.run_spec import ScheduleOrder
from horizon_app.engine.memory.geometry import Partition, Use
from horizon_app.engine.model.discovery import build_meta, discover, stage_parameters
from horizon_app.engine.model.staged import StagedModel
from horizon_app.engine.policy.optimal import optimal_misses
from horizon_app.engine.policy.protocol import NEVER
from horizon_app.engine.streaming.access import SegmentDoor
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.streaming.schedule import (
    OrderRecorder,
    Schedule,
    Shape,
    StageOrder,
    build_schedule,
    without_repeats,
)
from tests.support.streaming_rig import first_use, schedule_of
from tests.support.tiny_models import CONFIGS

CPU = torch.device("cpu")
# What each family's layer multiplies with, in the order of its forward.
PRODUCTS = {
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "qwen3": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "gpt2": ["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"],
}
ORDERS = (
    StageOrder(forward=(), backward=()),
    StageOrder(forward=(0, 1), backward=(1, 0)),
    StageOrder(forward=(2, 3), backward=(3, 2)),
    StageOrder(forward=(4,), backward=(4,)),
)
NOTHING_GATHERED: list[tuple[int, ...]] = [()] * 4


def recorded(family: str, block_bytes: int) -> tuple[Partition, OrderRecorder]:
    found = discover(build_meta(CONFIGS[family]()))
    part = partition(stage_parameters(found), block_bytes=block_bytes, element_bytes=4)
    door = SegmentDoor()
    recorder = OrderRecorder(part, CPU, torch.float32)
    door.target = recorder
    model = StagedModel(found, part, door, device=CPU, compute_dtype=torch.float32)
    with torch.enable_grad():
        output = model.rehearse().output
    recorder.recording_backward = True
    output.backward()
    return part, recorder


def blocks_of(part: Partition, name: str, stage: int) -> list[int]:
    parameter = next(p for p in part.parameters if p.stage == stage and p.name.endswith(f"{name}.weight"))
    return [part.segments[i].block for i in part.segments_of[parameter.index]]


@pytest.mark.parametrize("block_bytes", [4096, 65536], ids=["4KiB", "64KiB"])
@pytest.mark.parametrize("family", list(CONFIGS))
def test_recorder_orders_are_those_of_the_models_own_forward(family: str, block_bytes: int) -> None:
    part, recorder = recorded(family, block_bytes)
    orders = recorder.orders()
    assert orders[0] == StageOrder(forward=(), backward=()), "embeddings are looked up on the host"
    for stage in (1, 2):
        expected = without_repeats([b for name in PRODUCTS[family] for b in blocks_of(part, name, stage)])
        assert orders[stage].forward == expected
        assert set(orders[stage].backward) == set(expected)
        names = PRODUCTS[family]
        assert orders[stage].backward[0] == blocks_of(part, names[-1], stage)[-1]
        assert orders[stage].backward[-1] in {blocks_of(part, name, stage)[0] for name in names[:3]}
    head = without_repeats(blocks_of(part, "lm_head", 3))
    assert orders[3] == StageOrder(forward=head, backward=tuple(reversed(head)))
    matrices = {p.index for p in part.parameters if p.use in (Use.LINEAR, Use.CONV1D)}
    assert recorder.touched == matrices


@given(st.lists(st.integers(0, 9), max_size=60))
def test_schedule_next_use_equals_brute_force(accesses: list[int]) -> None:
    schedule = Schedule(steps=(), accesses=tuple(accesses))
    for block in range(11):
        for position in range(len(accesses) + 2):
            assert schedule.next_use(block, position) == first_use(accesses, block, position)


def test_schedule_next_use_of_a_block_it_does_not_know_never_comes() -> None:
    assert Schedule(steps=(), accesses=(1, 2)).next_use(7, 0) == NEVER


@given(st.lists(st.integers(0, 3), max_size=30))
def test_without_repeats_keeps_the_order_and_drops_neighbours_only(blocks: list[int]) -> None:
    kept = without_repeats(blocks)
    assert all(a != b for a, b in itertools.pairwise(kept))
    groups = [block for i, block in enumerate(blocks) if i == 0 or blocks[i - 1] != block]
    assert list(kept) == groups


def test_build_schedule_with_recompute_walks_up_and_back_down() -> None:
    schedule = build_schedule(ORDERS, NOTHING_GATHERED, Shape(head_chunks=(1,), kept_layers=0))
    assert schedule.accesses == (0, 1, 2, 3, 4, 2, 3, 2, 0, 1, 0)
    assert [(s.stage, s.direction, s.start, s.end) for s in schedule.steps] == [
        (1, Direction.FORWARD, 0, 2),
        (2, Direction.FORWARD, 2, 4),
        (3, Direction.BACKWARD, 4, 5),
        (2, Direction.BACKWARD, 5, 8),
        (1, Direction.BACKWARD, 8, 11),
    ]


def test_build_schedule_without_recompute_reads_each_layer_once_each_way() -> None:
    schedule = build_schedule(ORDERS, NOTHING_GATHERED, Shape(head_chunks=(1,), kept_layers=2))
    assert schedule.accesses == (0, 1, 2, 3, 4, 3, 2, 1, 0)


def test_build_schedule_with_one_layer_kept_recomputes_those_below_it() -> None:
    gathered = [(), (8,), (9,), ()]
    schedule = build_schedule(ORDERS, gathered, Shape(head_chunks=(1,), kept_layers=1))
    assert schedule.accesses == (8, 0, 1, 9, 2, 3, 4, 3, 2, 8, 0, 1, 0)


def test_build_schedule_is_layer_major_over_micro_batches_and_loss_chunks() -> None:
    schedule = build_schedule(ORDERS, NOTHING_GATHERED, Shape(head_chunks=(2, 0), kept_layers=2))
    assert schedule.accesses == (0, 1, 0, 1, 2, 3, 2, 3, 4, 3, 2, 3, 2, 1, 0, 1, 0)


def test_build_schedule_gathers_before_the_products_of_a_stage() -> None:
    gathered = [(), (8,), (9,), ()]
    recomputed = build_schedule(ORDERS, gathered, Shape(head_chunks=(1,), kept_layers=0))
    kept = build_schedule(ORDERS, gathered, Shape(head_chunks=(1,), kept_layers=2))
    assert recomputed.accesses == (8, 0, 1, 9, 2, 3, 4, 9, 2, 3, 2, 8, 0, 1, 0)
    assert kept.accesses == (8, 0, 1, 9, 2, 3, 4, 3, 2, 1, 0)


@pytest.mark.parametrize("kept_layers", [0, 1, 2])
def test_build_schedule_micro_batch_major_is_one_walk_up_and_down_after_the_other(kept_layers: int) -> None:
    gathered = [(), (8,), (9,), ()]

    def build(chunks: tuple[int, ...], order: ScheduleOrder) -> Schedule:
        return build_schedule(ORDERS, gathered, Shape(head_chunks=chunks, kept_layers=kept_layers, order=order))

    made = build((2, 0, 1), ScheduleOrder.MICRO_BATCH_MAJOR)
    alone = [build((chunks,), ScheduleOrder.LAYER_MAJOR) for chunks in (2, 0, 1)]
    assert made.accesses == without_repeats([block for each in alone for block in each.accesses])
    assert [(s.stage, s.direction) for s in made.steps] == [
        (s.stage, s.direction) for each in alone for s in each.steps
    ]
    assert [s.start for s in made.steps[1:]] == [s.end for s in made.steps[:-1]]


def test_build_schedule_of_one_micro_batch_is_the_same_in_both_orders() -> None:
    made = [
        build_schedule(ORDERS, NOTHING_GATHERED, Shape(head_chunks=(2,), kept_layers=0, order=order))
        for order in ScheduleOrder
    ]
    assert made[0] == made[1]


def test_schedule_optimal_hit_rate_is_beladys_share() -> None:
    schedule = schedule_of([[0, 1, 2, 3], [3, 2, 1, 0]])
    for capacity in (1, 2, 3, 4):
        expected = 1 - optimal_misses(schedule.accesses, capacity) / len(schedule.accesses)
        assert schedule.optimal_hit_rate(capacity) == pytest.approx(expected)
    assert Schedule(steps=(), accesses=()).optimal_hit_rate(2) == 1.0
