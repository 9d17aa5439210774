"""What every backend promises: the CPU's, the CUDA card's, and the one that brings copies in disorder."""

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from horizon_app.engine.errors import TransferFailed
from horizon_app.engine.streaming.backends.choose import make_backend
from horizon_app.engine.streaming.backends.cpu import CpuBackend
from horizon_app.engine.streaming.backends.protocol import Backend
from tests.support.chaos import ChaosBackend

NUMEL, COPIES = 4096, 40

MAKERS: dict[str, Callable[[], Backend]] = {
    "cpu": lambda: make_backend(torch.device("cpu")),
    "chaos": lambda: ChaosBackend(7),
    "cuda": lambda: make_backend(torch.device("cuda", 0)),
}
BACKENDS = [pytest.param(name, marks=pytest.mark.gpu) if name == "cuda" else name for name in MAKERS]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made = MAKERS[request.param]()
    yield made
    made.close()


def host(backend: Backend, *shape: int) -> torch.Tensor:
    return torch.zeros(*shape, pin_memory=backend.pins_host_memory)


def numbers(backend: Backend, count: int, numel: int) -> torch.Tensor:
    """Rows that differ in every element."""
    filled = host(backend, count, numel)
    return filled.copy_(torch.arange(count * numel).view(count, numel))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_backend_new_arena_has_the_shape_asked_for_on_its_device(backend: Backend, dtype: torch.dtype) -> None:
    arena = backend.new_arena(3, NUMEL, dtype)
    assert (arena.shape, arena.dtype, arena.device.type) == ((3, NUMEL), dtype, backend.device.type)


def test_backend_copy_in_after_its_event_the_slot_holds_the_source(backend: Backend) -> None:
    arena = backend.new_arena(COPIES, NUMEL, torch.float32).fill_(float("nan"))
    source = numbers(backend, COPIES, NUMEL)
    events = [backend.copy_in(arena[i], source[i], backend.compute_event()) for i in range(COPIES)]
    for i in reversed(range(COPIES)):  # waiting for one says nothing of the others
        events[i].wait()
        assert torch.equal(arena[i].cpu(), source[i])
    backend.synchronize()
    assert all(event.done() for event in events)


def test_backend_copy_in_shorter_than_the_slot_leaves_the_rest_alone(backend: Backend) -> None:
    arena = backend.new_arena(1, NUMEL, torch.float32).fill_(-1.0)
    source = numbers(backend, 1, 100)[0]
    backend.copy_in(arena[0][:100], source, backend.compute_event()).wait()
    assert torch.equal(arena[0].cpu(), torch.cat([source, torch.full((NUMEL - 100,), -1.0)]))


def test_backend_copy_in_comes_after_the_compute_that_reads_the_slot(backend: Backend) -> None:
    arena = backend.new_arena(1, 1 << 20, torch.float32).fill_(1.0)
    source = numbers(backend, 1, 1 << 20)[0].fill_(5.0)
    reads = [arena[0] * factor for factor in range(1, 20)]
    event = backend.copy_in(arena[0], source, backend.compute_event())
    event.wait()
    assert [float(read.mean()) for read in reads] == [float(factor) for factor in range(1, 20)]
    assert float(arena[0].mean()) == 5.0


def test_backend_gather_out_writes_first_and_then_adds_in_call_order(backend: Backend) -> None:
    """Powers of a base beyond fp32's precision: every other order, and every lost write, gives another sum."""
    target = host(backend, NUMEL).fill_(float("nan"))
    values = [10.0 ** (i % 9) + i for i in range(COPIES)]
    arena = backend.new_arena(COPIES, NUMEL, torch.float32)
    expected = torch.zeros(NUMEL)
    for i, value in enumerate(values):
        arena[i].fill_(value)
        expected = expected + value if i else torch.full((NUMEL,), value)
        backend.gather_out(arena[i], target, add=i > 0)
    backend.synchronize()
    assert torch.equal(target, expected)


def test_backend_gather_out_bf16_is_added_in_fp32(backend: Backend) -> None:
    arena = backend.new_arena(1, NUMEL, torch.bfloat16).fill_(1.0)
    target = host(backend, NUMEL).fill_(256.0)  # 257 is not a bf16 number
    backend.gather_out(arena[0], target, add=True).wait()
    assert set(target.tolist()) == {257.0}


def test_backend_gather_out_event_stands_for_the_finished_addition(backend: Backend) -> None:
    arena = backend.new_arena(COPIES, NUMEL, torch.float32)
    targets = host(backend, COPIES, NUMEL)
    for i in range(COPIES):
        arena[i].fill_(float(i))
    events = [backend.gather_out(arena[i], targets[i], add=False) for i in range(COPIES)]
    for i in reversed(range(COPIES)):
        events[i].wait()
        assert set(targets[i].tolist()) == {float(i)}
        arena[i].fill_(-1.0)  # the slot may be used again
    backend.synchronize()
    assert [float(row.mean()) for row in targets] == [float(i) for i in range(COPIES)]


def test_backend_after_gathers_sees_all_gathers_before_it_and_keeps_its_own_order(backend: Backend) -> None:
    arena = backend.new_arena(COPIES, NUMEL, torch.float32).fill_(1.0)
    targets = host(backend, COPIES, NUMEL)
    seen: list[tuple[int, float]] = []
    for i in range(COPIES):
        backend.gather_out(arena[i], targets[i], add=True)
        backend.after_gathers(lambda i=i: seen.append((i, float(targets[: i + 1].sum()))))
    backend.synchronize()
    assert seen == [(i, float((i + 1) * NUMEL)) for i in range(COPIES)]


def test_backend_work_that_fails_surfaces_when_its_event_is_waited_for(backend: Backend) -> None:
    def fail() -> None:
        raise OSError("no such page")

    event = backend.after_gathers(fail)
    with pytest.raises(TransferFailed, match="no such page") as failure:
        event.wait()
    assert isinstance(failure.value.__cause__, OSError)
    arena, target = backend.new_arena(1, NUMEL, torch.float32).fill_(3.0), host(backend, NUMEL)
    backend.gather_out(arena[0], target, add=True).wait()
    assert set(target.tolist()) == {3.0}, "the thread goes on after a failure"


def test_backend_synchronize_raises_where_a_gather_failed(backend: Backend) -> None:
    def fail() -> None:
        raise OSError("no such page")

    backend.after_gathers(fail)
    with pytest.raises(TransferFailed, match="no such page"):
        backend.synchronize()


def test_backend_gather_out_to_another_shape_fails_at_wait(backend: Backend) -> None:
    arena = backend.new_arena(1, NUMEL, torch.float32)
    with pytest.raises(TransferFailed):
        backend.gather_out(arena[0], host(backend, 3), add=True).wait()


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_close_ends_its_threads_after_the_work_that_was_queued(name: str) -> None:
    before = set(threading.enumerate())
    made = MAKERS[name]()
    assert set(threading.enumerate()) - before
    done: list[int] = []
    for i in range(COPIES):
        made.after_gathers(lambda i=i: done.append(i))
    made.close()
    assert done == list(range(COPIES))
    assert set(threading.enumerate()) <= before


def test_backend_movers_leave_the_number_of_threads_of_products_alone() -> None:
    before = torch.get_num_threads() + 1  # more than the one that movers use
    torch.set_num_threads(before)
    made = CpuBackend()
    try:
        inside: list[int] = []
        made.after_gathers(lambda: inside.append(torch.get_num_threads())).wait()
        assert inside == [1]
        assert torch.get_num_threads() == before
        fresh: list[int] = []
        thread = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert fresh == [before]
    finally:
        made.close()


def test_cpu_backend_copy_in_to_another_shape_fails_at_wait() -> None:
    made = CpuBackend()
    try:
        event = made.copy_in(torch.zeros(4), torch.zeros(3), made.compute_event())
        with pytest.raises(TransferFailed):
            event.wait()
    finally:
        made.close()


def test_chaos_backend_ends_copies_in_another_order_than_asked() -> None:
    made = ChaosBackend(1)
    try:
        arena, source = made.new_arena(COPIES, NUMEL, torch.float32), torch.zeros(NUMEL)
        for i in range(COPIES):
            made.copy_in(arena[i], source, made.compute_event())
        made.synchronize()
        assert sorted(made.finish_order) == list(range(COPIES))
        assert made.finish_order != list(range(COPIES))
    finally:
        made.close()
