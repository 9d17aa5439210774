"""What every backend promises: the CPU's, the CUDA card's, and the one that brings copies in disorder."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from horizon_app.engine.errors import DiskFailed, TransferFailed
from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Use
from horizon_app.engine.memory.host_pool import HostPool, HostSpan
from horizon_app.engine.memory.pinning import PinnedMemory
from horizon_app.engine.memory.planes import DiskState, PlaneName
from horizon_app.engine.memory.resident_plane import ResidentPlane
from horizon_app.engine.streaming.backends.choose import make_backend
from horizon_app.engine.streaming.backends.cpu import CpuBackend
from horizon_app.engine.streaming.backends.mover import Mover
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.streaming.partition import partition
from tests.support.chaos import ChaosBackend
from tests.support.faulty_disk import Fault, FaultKind, FaultyDisk
from tests.support.host_pools import host_pool
from tests.support.streaming_rig import BLOCK_NUMEL, made_up_partition

NUMEL, COPIES = 4096, 40

MAKERS: dict[str, Callable[[], Backend]] = {
    "cpu": lambda: make_backend(torch.device("cpu")),
    "chaos": lambda: ChaosBackend(7),
    "cuda": lambda: make_backend(torch.device("cuda", 0)),
}
READ_DISK = [name for name in MAKERS if name != "cuda"]
"""Those whose slots are memory that a disk can write to."""
BACKENDS = [pytest.param(name, marks=pytest.mark.gpu) if name == "cuda" else name for name in MAKERS]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made = MAKERS[request.param]()
    yield made
    made.close()


class Pages:
    """Host memory, a page a row."""

    def __init__(self, backend: Backend, count: int, numel: int) -> None:
        self._plane = ResidentPlane(range(0, (count + 1) * numel, numel), torch.float32)
        self.rows = self._plane.whole.view(count, numel)
        self.locks = PinnedMemory()
        if backend.pins_host_memory:
            self.locks.add(self._plane.whole)

    def span(self, row: int = 0) -> HostSpan:
        return HostSpan(self._plane, row, 0, self.rows.shape[1])


MakePages = Callable[[int, int], Pages]


@pytest.fixture
def pages(backend: Backend) -> Iterator[MakePages]:
    """Makes pages: how many, and the elements of each."""
    made: list[Pages] = []

    def make(count: int, numel: int) -> Pages:
        made.append(Pages(backend, count, numel))
        return made[-1]

    yield make
    for each in made:
        each.locks.close()


def numbers(made: Pages) -> torch.Tensor:
    """Fill the rows so that they differ in every element."""
    return made.rows.copy_(torch.arange(made.rows.numel()).view(made.rows.shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_backend_new_arena_has_the_shape_asked_for_on_its_device(backend: Backend, dtype: torch.dtype) -> None:
    arena = backend.new_arena(3, NUMEL, dtype)
    assert (arena.shape, arena.dtype, arena.device.type) == ((3, NUMEL), dtype, backend.device.type)


def test_backend_copy_in_after_its_event_the_slot_holds_the_source(backend: Backend, pages: MakePages) -> None:
    arena = backend.new_arena(COPIES, NUMEL, torch.float32).fill_(float("nan"))
    made = pages(COPIES, NUMEL)
    source = numbers(made)
    events = [backend.copy_in(arena[i], made.span(i), backend.compute_event()) for i in range(COPIES)]
    for i in reversed(range(COPIES)):  # waiting for one says nothing of the others
        events[i].wait()
        assert torch.equal(arena[i].cpu(), source[i])
    backend.synchronize()
    assert all(event.done() for event in events)


def test_backend_copy_in_shorter_than_the_slot_leaves_the_rest_alone(backend: Backend, pages: MakePages) -> None:
    arena = backend.new_arena(1, NUMEL, torch.float32).fill_(-1.0)
    made = pages(1, 100)
    source = numbers(made)
    backend.copy_in(arena[0][:100], made.span(), backend.compute_event()).wait()
    assert torch.equal(arena[0].cpu(), torch.cat([source[0], torch.full((NUMEL - 100,), -1.0)]))


def test_backend_copy_in_comes_after_the_compute_that_reads_the_slot(backend: Backend, pages: MakePages) -> None:
    arena = backend.new_arena(1, 1 << 20, torch.float32).fill_(1.0)
    made = pages(1, 1 << 20)
    made.rows.fill_(5.0)
    reads = [arena[0] * factor for factor in range(1, 20)]
    event = backend.copy_in(arena[0], made.span(), backend.compute_event())
    event.wait()
    assert [float(read.mean()) for read in reads] == [float(factor) for factor in range(1, 20)]
    assert float(arena[0].mean()) == 5.0


@pytest.mark.parametrize("frames", [None, 4], ids=["ram", "paged"])
def test_backend_copies_of_pages_that_may_be_on_disk_end_as_those_in_ram(
    backend: Backend, frames: int | None, tmp_path: Path
) -> None:
    """Both ways, through planes whose frames hold a part of the pages; the plane's order is not known here."""
    part = made_up_partition(COPIES)
    pool = host_pool(part, folder=tmp_path, frames=frames)
    try:
        arena = backend.new_arena(COPIES, BLOCK_NUMEL, torch.float32)
        for i, block in enumerate(part.blocks):
            arena[i].fill_(float(i))
            backend.gather_out(arena[i], pool.block(PlaneName.GRAD, block), add=False)
            backend.gather_out(arena[i], pool.block(PlaneName.GRAD, block), add=True)
        backend.synchronize()
        arena.fill_(float("nan"))
        for i, block in enumerate(part.blocks):
            backend.copy_in(arena[i], pool.block(PlaneName.GRAD, block), backend.compute_event())
        backend.synchronize()
        assert arena.cpu().tolist() == [[2.0 * i] * BLOCK_NUMEL for i in range(COPIES)]
    finally:
        pool.close()


class OnDisk(NamedTuple):
    """Weights of ten blocks of a sector each and of half a one; all but four are on disk alone."""

    part: Partition
    disk: FaultyDisk
    pool: HostPool

    def states(self) -> list[DiskState]:
        return [self.pool.disk_state(block.index) for block in self.part.blocks]


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[OnDisk]:
    facts = ParameterFacts(name="w", shape=(21, 512), use=Use.LINEAR, decay=True)
    part = partition([("L0", [facts])], block_bytes=4096, element_bytes=4)
    disk = FaultyDisk()
    pool = host_pool(part, folder=tmp_path, frames=4, system=disk, reads_straight=True)
    pool.write(part.parameters[0], torch.arange(part.numel))
    assert pool.store is not None
    pool.store.drain()
    yield OnDisk(part, disk, pool)
    pool.close()


@pytest.mark.parametrize("backend", READ_DISK, indirect=True)
def test_backend_that_reads_the_disk_brings_blocks_past_the_frames(backend: Backend, on_disk: OnDisk) -> None:
    part, before = on_disk.part, on_disk.states()
    assert before.count(DiskState.ON_DISK) == len(part.blocks) - 4
    arena = backend.new_arena(len(part.blocks), part.block_numel, torch.float32).fill_(float("nan"))
    on_disk.disk.hold()
    spans = [on_disk.pool.block(PlaneName.WEIGHT, block) for block in part.blocks]
    events = [backend.copy_in(arena[i], spans[i], backend.compute_event()) for i in range(len(spans))]
    assert any(not event.done() for event in events), "nobody waits for the disk where the copy is asked for"
    on_disk.disk.release()
    backend.synchronize()
    assert all(event.done() for event in events)
    last = part.blocks[-1]
    assert torch.equal(arena[:-1].flatten(), torch.arange(last.pool_start).float())
    assert torch.equal(arena[-1][: last.numel], torch.arange(last.pool_start, part.numel).float())
    assert on_disk.states() == before, "nothing was pushed out for it"


@pytest.mark.parametrize("backend", READ_DISK, indirect=True)
def test_backend_that_reads_the_disk_tells_of_a_read_that_failed_at_synchronize_at_the_latest(
    backend: Backend, on_disk: OnDisk
) -> None:
    on_disk.disk.faults.append(Fault(FaultKind.READ_ERROR))
    arena = backend.new_arena(1, on_disk.part.block_numel, torch.float32)
    first = on_disk.pool.block(PlaneName.WEIGHT, on_disk.part.blocks[0])
    backend.copy_in(arena[0], first, backend.compute_event())
    with pytest.raises(DiskFailed):
        backend.synchronize()


def test_backend_gather_out_writes_first_and_then_adds_in_call_order(backend: Backend, pages: MakePages) -> None:
    """Powers of a base beyond fp32's precision: every other order, and every lost write, gives another sum."""
    made = pages(1, NUMEL)
    made.rows.fill_(float("nan"))
    values = [10.0 ** (i % 9) + i for i in range(COPIES)]
    arena = backend.new_arena(COPIES, NUMEL, torch.float32)
    expected = torch.zeros(NUMEL)
    for i, value in enumerate(values):
        arena[i].fill_(value)
        expected = expected + value if i else torch.full((NUMEL,), value)
        backend.gather_out(arena[i], made.span(), add=i > 0)
    backend.synchronize()
    assert torch.equal(made.rows[0], expected)


def test_backend_gather_out_bf16_is_added_in_fp32(backend: Backend, pages: MakePages) -> None:
    arena = backend.new_arena(1, NUMEL, torch.bfloat16).fill_(1.0)
    made = pages(1, NUMEL)
    made.rows.fill_(256.0)  # 257 is not a bf16 number
    backend.gather_out(arena[0], made.span(), add=True).wait()
    assert set(made.rows[0].tolist()) == {257.0}


def test_backend_gather_out_event_stands_for_the_finished_addition(backend: Backend, pages: MakePages) -> None:
    arena = backend.new_arena(COPIES, NUMEL, torch.float32)
    made = pages(COPIES, NUMEL)
    for i in range(COPIES):
        arena[i].fill_(float(i))
    events = [backend.gather_out(arena[i], made.span(i), add=False) for i in range(COPIES)]
    for i in reversed(range(COPIES)):
        events[i].wait()
        assert set(made.rows[i].tolist()) == {float(i)}
        arena[i].fill_(-1.0)  # the slot may be used again
    backend.synchronize()
    assert [float(row.mean()) for row in made.rows] == [float(i) for i in range(COPIES)]


def test_backend_after_gathers_sees_all_gathers_before_it_and_keeps_its_own_order(
    backend: Backend, pages: MakePages
) -> None:
    arena = backend.new_arena(COPIES, NUMEL, torch.float32).fill_(1.0)
    made = pages(COPIES, NUMEL)
    seen: list[tuple[int, float]] = []
    for i in range(COPIES):
        backend.gather_out(arena[i], made.span(i), add=True)
        backend.after_gathers(lambda i=i: seen.append((i, float(made.rows[: i + 1].sum()))))
    backend.synchronize()
    assert seen == [(i, float((i + 1) * NUMEL)) for i in range(COPIES)]


def test_backend_after_gathers_comes_before_the_gathers_that_follow(backend: Backend, pages: MakePages) -> None:
    arena, made = backend.new_arena(1, NUMEL, torch.float32).fill_(1.0), pages(1, NUMEL)
    backend.gather_out(arena[0], made.span(), add=False)
    expected = 1.0

    def turn() -> None:
        made.rows[0].neg_()

    for _ in range(COPIES):
        backend.after_gathers(turn)
        backend.gather_out(arena[0], made.span(), add=True)
        expected = 1.0 - expected
    backend.synchronize()
    assert set(made.rows[0].tolist()) == {expected}


def fail() -> None:
    raise OSError("no such page")


def fail_on_disk() -> None:
    raise DiskFailed(operation="read", page=3, reason="the cable is out")


def test_backend_work_that_fails_surfaces_when_its_event_is_waited_for_at_the_latest(
    backend: Backend, pages: MakePages
) -> None:
    """A backend that works at once raises at once; one with threads wraps what was met there."""
    with pytest.raises((TransferFailed, OSError), match="no such page") as failure:
        backend.after_gathers(fail).wait()
    assert isinstance(failure.value, OSError) or isinstance(failure.value.__cause__, OSError)
    arena, made = backend.new_arena(1, NUMEL, torch.float32).fill_(3.0), pages(1, NUMEL)
    backend.gather_out(arena[0], made.span(), add=True).wait()
    assert set(made.rows[0].tolist()) == {3.0}, "the thread goes on after a failure"


def test_backend_error_of_the_engine_surfaces_as_it_is(backend: Backend) -> None:
    with pytest.raises(DiskFailed, match="cable") as failure:
        backend.after_gathers(fail_on_disk).wait()
    assert failure.value.page == 3


def test_backend_failure_that_nobody_waited_for_surfaces_at_synchronize_at_the_latest(backend: Backend) -> None:
    def fail_and_go_on() -> None:
        backend.after_gathers(fail_on_disk)
        backend.synchronize()

    with pytest.raises(DiskFailed, match="cable"):
        fail_and_go_on()


def test_backend_gather_out_to_another_shape_fails_at_wait_at_the_latest(backend: Backend, pages: MakePages) -> None:
    arena, made = backend.new_arena(1, NUMEL, torch.float32), pages(1, 3)
    with pytest.raises((TransferFailed, RuntimeError), match="size"):
        backend.gather_out(arena[0], made.span(), add=True).wait()


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_close_ends_its_threads_after_the_work_that_was_queued(name: str) -> None:
    before = set(threading.enumerate())
    made = MAKERS[name]()
    assert bool(set(threading.enumerate()) - before) == (name != "cpu"), "on the CPU, copies are made at once"
    done: list[int] = []
    for i in range(COPIES):
        made.after_gathers(lambda i=i: done.append(i))
    made.close()
    assert done == list(range(COPIES))
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("threads", [1, 2])
def test_mover_leaves_the_number_of_threads_of_products_alone(threads: int) -> None:
    before = torch.get_num_threads() + 2  # more than those that the mover uses
    torch.set_num_threads(before)
    made = Mover("test", threads=threads)
    try:
        inside: list[int] = []
        made.submit(lambda: inside.append(torch.get_num_threads())).wait()
        assert inside == [threads]
        assert torch.get_num_threads() == before
        fresh: list[int] = []
        thread = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert fresh == [before]
    finally:
        made.close()


def test_cpu_backend_copy_in_to_a_slot_that_is_too_small_fails_at_once() -> None:
    made = CpuBackend()
    with pytest.raises(RuntimeError, match="size"):
        made.copy_in(torch.zeros(2), Pages(made, 1, 3).span(), made.compute_event())


def test_chaos_backend_ends_copies_in_another_order_than_asked() -> None:
    made = ChaosBackend(1)
    try:
        arena, source = made.new_arena(COPIES, NUMEL, torch.float32), Pages(made, 1, NUMEL)
        for i in range(COPIES):
            made.copy_in(arena[i], source.span(), made.compute_event())
        made.synchronize()
        assert sorted(made.finish_order) == list(range(COPIES))
        assert made.finish_order != list(range(COPIES))
    finally:
        made.close()
