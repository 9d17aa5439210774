"""The host tier, whole in RAM and paged with few frames: the same answers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from horizon_app.engine.errors import DiskFailed
from horizon_app.engine.memory.geometry import Parameter, ParameterFacts, Partition, Use
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import DiskState, Opening, PlaneName
from horizon_app.engine.streaming.partition import partition
from tests.support.faulty_disk import Fault, FaultKind, FaultyDisk
from tests.support.host_pools import fill_parameters, host_pool, read_all, write_plane
from tests.support.streaming_rig import BLOCK_NUMEL, made_up_partition

ROWS, WIDTH = 130, 20
FRAMES = 4
MakePool = Callable[..., HostPool]


def cut() -> Partition:
    """Parameters that span several blocks, and blocks of several parameters; 16 rows of the table fill a block."""
    table = ParameterFacts(name="table", shape=(ROWS, WIDTH), use=Use.LOOKUP, decay=True)
    norm = ParameterFacts(name="norm", shape=(7,), use=Use.GATHER, decay=False)
    experts = ParameterFacts(name="experts", shape=(3, 11, 13), use=Use.GATHER, decay=True)
    return partition([("embed", [table]), ("L0", [norm, experts])], block_bytes=16 * WIDTH * 4, element_bytes=4)


@pytest.fixture(params=[None, FRAMES], ids=["ram", "paged"])
def make_pool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakePool]:
    made: list[HostPool] = []

    def make(part: Partition, dtype: torch.dtype = torch.float32) -> HostPool:
        made.append(host_pool(part, dtype, folder=tmp_path, frames=request.param))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def parameter(part: Partition, name: str) -> Parameter:
    return part.by_name[name]


def test_host_pool_fp32_weights_are_the_masters_themselves() -> None:
    pool = host_pool(made_up_partition(2))
    assert pool.planes[PlaneName.WEIGHT] is pool.planes[PlaneName.MASTER]
    assert (pool.num_bytes, pool.store) == (2 * BLOCK_NUMEL * 16, None)


def test_host_pool_bf16_weights_are_rounded_copies(make_pool: MakePool) -> None:
    part = cut()
    pool = make_pool(part, torch.bfloat16)
    assert not any(bool(weight.any()) for weight in read_all(part, pool, PlaneName.WEIGHT).values())
    fill_parameters(part, pool)
    masters, weights = read_all(part, pool), read_all(part, pool, PlaneName.WEIGHT)
    assert all(torch.equal(weights[name], masters[name].bfloat16()) for name in masters)
    assert not torch.equal(weights["table"].float(), masters["table"])


def test_host_pool_bytes_are_those_of_the_frames_where_it_is_paged(tmp_path: Path) -> None:
    pool = host_pool(made_up_partition(9), torch.bfloat16, folder=tmp_path, frames=FRAMES)
    try:
        assert pool.num_bytes == 5 * FRAMES * 4096
        assert pool.store is not None
        assert pool.store.file_bytes == 5 * 9 * 2 * 4096, "header and data take a sector each"
    finally:
        pool.close()


def test_host_pool_spans_of_segments_and_blocks_lie_in_the_same_pages(make_pool: MakePool) -> None:
    part = cut()
    pool = make_pool(part)
    for segment in part.segments:
        with pool.segment(PlaneName.GRAD, segment).opened(Opening.CHANGE) as content:
            assert content.shape == (segment.numel,) == (pool.segment(PlaneName.GRAD, segment).numel,)
            content.fill_(segment.index + 1.0)
    for block in part.blocks:
        with pool.block(PlaneName.GRAD, block).opened(Opening.READ) as content:
            expected = torch.zeros(block.numel)
            for segment in part.segments:
                if segment.block == block.index:
                    expected[segment.block_start : segment.block_start + segment.numel] = segment.index + 1.0
            assert torch.equal(content, expected)


def test_host_pool_reads_what_was_written_whatever_blocks_it_spans(make_pool: MakePool) -> None:
    part = cut()
    assert all(len(part.segments_of[part.by_name[name].index]) > 1 for name in ("table", "experts"))
    pool = make_pool(part)
    fill_parameters(part, pool, seed=3)
    draw = torch.Generator().manual_seed(3)
    for made in part.parameters:
        got = pool.read(made)
        assert torch.equal(got, torch.randn(made.shape, generator=draw)), made.name
        got.zero_()
        assert bool(pool.read(made).any()), "what is read is a copy"


def test_host_pool_planes_are_apart(make_pool: MakePool) -> None:
    part = cut()
    pool = make_pool(part, torch.bfloat16)
    experts = parameter(part, "experts")
    names = [PlaneName.MASTER, PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ, PlaneName.GRAD, PlaneName.WEIGHT]
    for value, name in enumerate(names):
        write_plane(part, pool, name, experts, torch.full(experts.shape, float(value)))
    assert [set(pool.read(experts, name).flatten().tolist()) for name in names] == [{0.0}, {1.0}, {2.0}, {3.0}, {4.0}]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [[0], [ROWS - 1], [15, 16], [3, 17, 18, 64, 129], list(range(ROWS))])
def test_host_pool_rows_are_those_of_the_weights(make_pool: MakePool, rows: list[int], dtype: torch.dtype) -> None:
    part = cut()
    pool = make_pool(part, dtype)
    fill_parameters(part, pool)
    table = parameter(part, "table")
    got = pool.rows(table, torch.tensor(rows))
    assert got.dtype is dtype
    assert torch.equal(got, pool.read(table).to(dtype)[rows])


def test_host_pool_rows_open_only_the_pages_that_hold_them(tmp_path: Path) -> None:
    part = cut()
    pool = host_pool(part, folder=tmp_path, frames=FRAMES)
    try:
        fill_parameters(part, pool)
        assert pool.store is not None
        pool.store.drain()
        before = pool.store.bytes_read
        pool.rows(parameter(part, "table"), torch.tensor([0, 1]))
        assert pool.store.bytes_read - before == 2 * 4096
    finally:
        pool.close()


def test_host_pool_disk_state_is_that_of_the_busiest_plane(tmp_path: Path) -> None:
    part = made_up_partition(6)
    disk = FaultyDisk()
    pool = host_pool(part, folder=tmp_path, frames=FRAMES, system=disk)
    try:
        assert {pool.disk_state(block.index) for block in part.blocks} == {DiskState.IN_RAM}
        for block in part.blocks:
            with pool.block(PlaneName.GRAD, block).opened(Opening.FILL) as content:
                content.fill_(1.0)
        assert pool.store is not None
        pool.store.drain()
        states = [pool.disk_state(block.index) for block in part.blocks]
        assert states.count(DiskState.ON_DISK) == 2
        assert states.count(DiskState.IN_RAM) == FRAMES
    finally:
        pool.close()


def test_host_pool_write_that_the_disk_refuses_is_told(tmp_path: Path) -> None:
    part = cut()
    pool = host_pool(part, folder=tmp_path, frames=FRAMES, system=FaultyDisk(Fault(FaultKind.WRITE_ERROR)))
    try:
        with pytest.raises(DiskFailed):
            fill_parameters(part, pool)
    finally:
        pool.close()


def test_host_pool_closed_gives_the_disks_room_back(tmp_path: Path) -> None:
    disk = FaultyDisk()
    pool = host_pool(cut(), folder=tmp_path, frames=FRAMES, system=disk)
    pool.close()
    assert disk.closed
    assert list(tmp_path.iterdir()) == []
