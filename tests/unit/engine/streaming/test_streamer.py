"""The streamer's decisions, one by one, on copies that end when the test says so."""

from collections.abc import Iterator

import pytest
import torch

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.memory.block_table import DeviceWeight
from horizon_app.engine.streaming.backends.cpu import CpuBackend
from horizon_app.engine.streaming.backends.protocol import Event
from tests.support.streaming_rig import CountingBackend, Rig, schedule_of


class LazyCopy:
    """A copy that is made when somebody waits for it, or when the test lets it end."""

    def __init__(self, target: torch.Tensor, source: torch.Tensor) -> None:
        self._target, self._source, self._done = target, source, False

    def done(self) -> bool:
        return self._done

    def wait(self) -> None:
        if not self._done:
            self._target.copy_(self._source)
            self._done = True


class LazyBackend(CpuBackend):
    """Nothing arrives by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[LazyCopy] = []

    def copy_in(self, target: torch.Tensor, source: torch.Tensor, after: Event) -> Event:
        self.copies.append(LazyCopy(target, source))
        return self.copies[-1]


@pytest.fixture
def backend() -> Iterator[LazyBackend]:
    made = LazyBackend()
    yield made
    made.close()


def rig(backend: LazyBackend, *, slots: int, window: int, policy: Policy = Policy.OPTIMAL, blocks: int = 8) -> Rig:
    return Rig(blocks, slots, window, policy, CountingBackend(backend))


def begin(made: Rig, steps: list[list[int]]) -> None:
    made.streamer.begin_optimizer_step(schedule_of(steps))
    made.streamer.begin_compute_step(0)


def counted(made: Rig) -> tuple[int, int, int]:
    return made.counters.hits, made.counters.late, made.counters.misses


def test_streamer_block_that_has_arrived_is_a_hit_one_under_way_is_late(backend: LazyBackend) -> None:
    made = rig(backend, slots=3, window=1)
    begin(made, [[0, 1]])
    backend.copies[0].wait()
    made.streamer.access(0)
    assert counted(made) == (1, 0, 0)
    made.streamer.access(1)
    assert counted(made) == (1, 1, 0)


def test_streamer_block_that_nobody_asked_for_is_a_miss(backend: LazyBackend) -> None:
    made = rig(backend, slots=3, window=0)
    begin(made, [[0, 1]])
    assert backend.copies == []
    made.streamer.access(0)
    assert counted(made) == (0, 0, 1)


@pytest.mark.parametrize(("window", "brought"), [(0, []), (1, [0, 1, 2, 3]), (2, [0, 1, 2, 3, 4, 5])])
def test_streamer_window_counts_compute_steps_ahead(backend: LazyBackend, window: int, brought: list[int]) -> None:
    made = rig(backend, slots=8, window=window)
    begin(made, [[0, 1], [2, 3], [4, 5], [6, 7]])
    assert [block for block in range(8) if made.table.is_on_device(block)] == brought


def test_streamer_looks_ahead_no_further_than_there_are_slots(backend: LazyBackend) -> None:
    made = rig(backend, slots=3, window=8)
    begin(made, [[0, 1, 2, 3, 4]])
    assert made.counters.fetches == 3
    made.streamer.access(0)
    assert made.counters.fetches == 3, "0 is in use, 1 and 2 are needed sooner than 3"
    made.streamer.access(1)
    assert made.counters.fetches == 4, "0 made room for 3"
    assert made.table.weight(0) is DeviceWeight.ABSENT


def test_streamer_block_evicted_for_a_gradient_is_brought_back_in_time(backend: LazyBackend) -> None:
    made = rig(backend, slots=3, window=1)
    begin(made, [[0, 1, 2, 3]])
    for copy in backend.copies:
        copy.wait()
    made.streamer.poll_arrivals()
    made.streamer.access(0)
    slot, _ = made.streamer.take_slot()
    assert made.table.weight(2) is DeviceWeight.ABSENT, "it is needed last"
    made.streamer.access(1)
    assert made.table.weight(2) is DeviceWeight.ARRIVING, "prefetch has gone back for it"
    made.streamer.access(2)
    assert counted(made) == (2, 1, 0)
    made.streamer.give_slot_back(slot)


def test_streamer_slot_that_comes_back_lets_prefetch_go_on(backend: LazyBackend) -> None:
    made = rig(backend, slots=3, window=1)
    slot, _ = made.streamer.take_slot()
    begin(made, [[0, 1, 2]])
    assert made.counters.fetches == 2
    made.streamer.give_slot_back(slot)
    made.streamer.access(0)
    assert made.table.weight(2) is DeviceWeight.ARRIVING


def test_streamer_same_block_asked_again_is_one_access(backend: LazyBackend) -> None:
    made = rig(backend, slots=2, window=0)
    begin(made, [[0]])
    first = made.streamer.access(0)
    assert made.streamer.access(0).data_ptr() == first.data_ptr()
    assert made.counters.accesses == 1


def test_streamer_block_that_the_schedule_does_not_know_is_brought_all_the_same(backend: LazyBackend) -> None:
    made = rig(backend, slots=2, window=1)
    begin(made, [[0, 1]])
    assert torch.equal(made.streamer.access(5), made.expected(5))
    assert torch.equal(made.streamer.access(0), made.expected(0))
    assert torch.equal(made.streamer.access(1), made.expected(1))
    assert made.counters.accesses == 3


def test_streamer_invalidate_empties_the_arena_so_that_new_weights_are_seen(backend: LazyBackend) -> None:
    made = rig(backend, slots=4, window=1)
    begin(made, [[0, 1]])
    made.streamer.access(0)
    made.streamer.invalidate()
    assert made.arena.num_used == 0
    made.pool.master.add_(1000.0)
    begin(made, [[0, 1]])
    assert torch.equal(made.streamer.access(0), made.expected(0))
    assert float(made.streamer.access(1)[0]) >= 1000.0


def test_streamer_takes_the_time_that_compute_waited(backend: LazyBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rig(backend, slots=2, window=0)
    begin(made, [[0]])
    clock = iter([10.0, 10.25])
    monkeypatch.setattr("horizon_app.engine.streaming.streamer.time.perf_counter", lambda: next(clock))
    made.streamer.access(0)
    assert made.counters.stall_s == pytest.approx(0.25)


def test_streamer_observer_is_called_at_every_access(backend: LazyBackend) -> None:
    made = rig(backend, slots=2, window=0)
    states: list[DeviceWeight] = []
    made.streamer._on_access = lambda: states.append(made.table.weight(0))
    begin(made, [[0, 1]])
    made.streamer.access(0)
    made.streamer.access(1)
    assert states == [DeviceWeight.IN_USE, DeviceWeight.READY]
    assert backend.copies[0].done()
