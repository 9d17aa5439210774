"""The cut into blocks, for every list of shapes: nothing lost, nothing doubled, nothing across a border."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from horizon_app.engine.errors import BlockTooSmall
from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Use
from horizon_app.engine.streaming.partition import ALIGN, MIN_FILL, ROW_MULTIPLE, partition

Stages = list[tuple[str, list[ParameterFacts]]]

BLOCK_NUMELS = st.sampled_from([64, 96, 128, 272, 1024, 4096])
ELEMENT_BYTES = st.sampled_from([2, 4])


@st.composite
def facts(draw: st.DrawFn) -> ParameterFacts:
    use = draw(st.sampled_from(list(Use)))
    widths = st.integers(1, 300)
    if use is not Use.GATHER:
        shape: tuple[int, ...] = (draw(widths), draw(widths))
    else:
        shape = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    return ParameterFacts(name="", shape=shape, use=use, decay=len(shape) > 1)


@st.composite
def stages(draw: st.DrawFn) -> Stages:
    made: Stages = []
    for stage in range(draw(st.integers(1, 4))):
        listed = draw(st.lists(facts(), max_size=5))
        named = [
            ParameterFacts(name=f"{stage}.{i}", shape=p.shape, use=p.use, decay=p.decay) for i, p in enumerate(listed)
        ]
        made.append((f"stage {stage}", named))
    return made


def cut(model: Stages, block_numel: int, element_bytes: int) -> Partition:
    try:
        return partition(model, block_bytes=block_numel * element_bytes, element_bytes=element_bytes)
    except BlockTooSmall:
        assume(False)
        raise


def rows_and_width(part: Partition, parameter: int) -> tuple[int, int]:
    shape = part.parameters[parameter].shape
    return shape[0], part.parameters[parameter].numel // shape[0]


@given(stages(), BLOCK_NUMELS, ELEMENT_BYTES)
def test_partition_every_element_lies_in_exactly_one_segment(model: Stages, block_numel: int, item: int) -> None:
    part = cut(model, block_numel, item)
    assert [(p.name, p.shape) for p in part.parameters] == [(f.name, f.shape) for _, listed in model for f in listed]
    covered = np.zeros(part.numel, dtype=np.int64)
    for parameter in part.parameters:
        expected = parameter.pool_start
        for index in part.segments_of[parameter.index]:
            segment = part.segments[index]
            assert segment.index == index and segment.parameter == parameter.index
            assert segment.pool_start == expected, "a parameter is contiguous in the pool"
            assert segment.numel > 0
            expected += segment.numel
            covered[segment.pool_start : expected] += 1
        assert expected == parameter.pool_start + parameter.numel
    assert covered.max(initial=0) <= 1
    assert covered.sum() == sum(p.numel for p in part.parameters)
    assert sorted(i for listed in part.segments_of for i in listed) == list(range(len(part.segments)))


@given(stages(), BLOCK_NUMELS, ELEMENT_BYTES)
def test_partition_segments_lie_inside_blocks_of_at_most_the_block_size(
    model: Stages, block_numel: int, item: int
) -> None:
    part = cut(model, block_numel, item)
    assert part.block_numel == block_numel
    end = 0
    for index, block in enumerate(part.blocks):
        assert block.index == index
        assert block.pool_start == end, "blocks follow each other without holes"
        assert 0 < block.numel <= block_numel
        end = block.pool_end
    for segment in part.segments:
        block = part.blocks[segment.block]
        assert segment.pool_start == block.pool_start + segment.block_start
        assert segment.pool_start + segment.numel <= block.pool_end
        assert part.parameters[segment.parameter].stage == block.stage


@given(stages(), BLOCK_NUMELS, ELEMENT_BYTES)
def test_partition_every_stage_starts_a_new_block(model: Stages, block_numel: int, item: int) -> None:
    part = cut(model, block_numel, item)
    assert part.stage_names == tuple(name for name, _ in model)
    for stage, (_, listed) in enumerate(model):
        blocks = part.stage_blocks[stage]
        assert (
            [b.index for b in blocks] == list(range(blocks[0].index, blocks[0].index + len(blocks))) if blocks else True
        )
        assert bool(blocks) == bool(listed)
        first = next((p for p in part.parameters if p.stage == stage), None)
        if first is not None:
            assert first.pool_start == blocks[0].pool_start
    assert [b.stage for b in part.blocks] == sorted(b.stage for b in part.blocks)


@given(stages(), BLOCK_NUMELS, ELEMENT_BYTES)
def test_partition_products_are_cut_at_whole_rows_only(model: Stages, block_numel: int, item: int) -> None:
    part = cut(model, block_numel, item)
    for parameter in part.parameters:
        if parameter.use is Use.GATHER:
            continue
        rows, width = rows_and_width(part, parameter.index)
        at = 0
        for index in part.segments_of[parameter.index]:
            segment = part.segments[index]
            assert segment.row_start == at < segment.row_end
            assert segment.numel == (segment.row_end - segment.row_start) * width
            assert segment.pool_start == parameter.pool_start + segment.row_start * width
            at = segment.row_end
        assert at == rows


@given(stages(), BLOCK_NUMELS, ELEMENT_BYTES)
def test_partition_cuts_fall_on_whole_tiles_where_a_block_has_room(model: Stages, block_numel: int, item: int) -> None:
    part = cut(model, block_numel, item)
    for parameter in part.parameters:
        _, width = rows_and_width(part, parameter.index)
        if parameter.use is Use.GATHER or width == 1:
            continue
        for index in part.segments_of[parameter.index][:-1]:
            rows = part.segments[index].row_end - part.segments[index].row_start
            assert rows < ROW_MULTIPLE or rows % ROW_MULTIPLE == 0


@given(stages(), BLOCK_NUMELS, ELEMENT_BYTES)
def test_partition_block_holds_one_segment_of_a_parameter(model: Stages, block_numel: int, item: int) -> None:
    part = cut(model, block_numel, item)
    places = [(segment.parameter, segment.block) for segment in part.segments]
    assert len(places) == len(set(places))


@given(stages(), BLOCK_NUMELS, ELEMENT_BYTES)
def test_partition_parameters_start_aligned_and_blocks_waste_a_bounded_share(
    model: Stages, block_numel: int, item: int
) -> None:
    part = cut(model, block_numel, item)
    for parameter in part.parameters:
        first = part.segments[part.segments_of[parameter.index][0]]
        assert first.block_start % ALIGN == 0
    padding = part.numel - sum(p.numel for p in part.parameters)
    assert padding < ALIGN * max(1, len(part.parameters)), "only alignment is lost in the pool"
    widest = max((_cut_unit(part, p.index) for p in part.parameters), default=1)
    for block, after in itertools.pairwise(part.blocks):
        if block.stage == after.stage:  # the last block of a stage may be short
            unused = block_numel - block.numel
            assert unused <= max(block_numel / MIN_FILL, widest) + ALIGN


def _cut_unit(part: Partition, parameter: int) -> int:
    """Elements that a cut may leave unused for one parameter: a row, or a tile of rows where a block holds one."""
    _, width = rows_and_width(part, parameter)
    return width * ROW_MULTIPLE if width * ROW_MULTIPLE <= part.block_numel else width


@given(stages(), BLOCK_NUMELS, ELEMENT_BYTES)
def test_partition_same_model_twice_gives_the_same_blocks(model: Stages, block_numel: int, item: int) -> None:
    assert cut(model, block_numel, item) == cut(model, block_numel, item)


@given(
    use=st.sampled_from([Use.LINEAR, Use.CONV1D, Use.LOOKUP]),
    width=st.integers(1, 200),
    block_numel=st.integers(1, 200),
    item=ELEMENT_BYTES,
)
def test_partition_row_wider_than_a_block_is_refused_with_both_numbers(
    use: Use, width: int, block_numel: int, item: int
) -> None:
    model = [("L0", [ParameterFacts(name="q_proj.weight", shape=(3, width), use=use, decay=True)])]
    if width <= block_numel:
        assert partition(model, block_bytes=block_numel * item, element_bytes=item).blocks
        return
    with pytest.raises(BlockTooSmall) as refusal:
        partition(model, block_bytes=block_numel * item, element_bytes=item)
    assert (refusal.value.parameter, refusal.value.row_bytes, refusal.value.block_bytes) == (
        "q_proj.weight",
        width * item,
        block_numel * item,
    )
    for number in (str(width * item), str(block_numel * item), "q_proj.weight"):
        assert number in str(refusal.value)


def test_partition_gathered_parameter_wider_than_a_block_is_cut_anywhere() -> None:
    facts = ParameterFacts(name="experts", shape=(3, 10, 10), use=Use.GATHER, decay=True)
    part = partition([("L0", [facts])], block_bytes=64 * 4, element_bytes=4)
    assert [s.numel for s in part.segments] == [64, 64, 64, 64, 44]
