"""The streamer's decisions, one by one, on copies that end when the test says so."""

from collections.abc import Iterator

import pytest
import torch

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.memory.arena import SlotNotTaken
from horizon_app.engine.memory.block_table import SHARED, DeviceWeight
from horizon_app.engine.memory.host_pool import HostSpan
from horizon_app.engine.memory.planes import Opening
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.streaming.backends.cpu import CpuBackend
from horizon_app.engine.streaming.backends.protocol import Event
from tests.support.streaming_rig import BLOCK_NUMEL, CountingBackend, Rig, schedule_of


class LazyCopy:
    """A copy that is made when somebody waits for it, or when the test lets it end."""

    def __init__(self, target: torch.Tensor, source: HostSpan) -> None:
        self._target, self._source, self._done = target, source, False

    def done(self) -> bool:
        return self._done

    def wait(self) -> None:
        if not self._done:
            with self._source.opened(Opening.READ) as content:
                self._target[: content.numel()].copy_(content)
            self._done = True


class LazyBackend(CpuBackend):
    """Nothing arrives by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[LazyCopy] = []

    def copy_in(self, target: torch.Tensor, source: HostSpan, after: Event) -> Event:
        self.copies.append(LazyCopy(target, source))
        return self.copies[-1]


@pytest.fixture
def backend() -> Iterator[LazyBackend]:
    made = LazyBackend()
    yield made
    made.close()


def rig(
    backend: LazyBackend, *, slots: int, window: int, policy: Policy = Policy.OPTIMAL, blocks: int = 8,
    shares_host: bool = False,
) -> Rig:  # fmt: skip
    return Rig(blocks, slots, window, policy, CountingBackend(backend), shares_host=shares_host)


class Gate:
    """An update gate that the test opens; whoever passes it opens it for good."""

    def __init__(self) -> None:
        self.open = False
        self.passed: list[int] = []

    def is_open(self, stage: int) -> bool:
        return self.open

    def pass_through(self, stage: int) -> None:
        self.passed.append(stage)
        self.open = True


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
    [weight] = made.partition.parameters
    made.pool.write(weight, made.pool.read(weight) + 1000.0)
    begin(made, [[0, 1]])
    assert torch.equal(made.streamer.access(0), made.expected(0))
    assert float(made.streamer.access(1)[0]) >= 1000.0


def test_streamer_takes_the_time_that_compute_waited(backend: LazyBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rig(backend, slots=2, window=0)
    begin(made, [[0]])
    clock = iter([10.0, 10.5, 11.0, 11.25])  # some backends copy while they are asked; then compute waits for the end
    monkeypatch.setattr("horizon_app.engine.streaming.streamer.time.perf_counter", lambda: next(clock))
    made.streamer.access(0)
    assert made.counters.stall_s == pytest.approx(0.75)


def test_streamer_observer_is_called_at_every_access(backend: LazyBackend) -> None:
    made = rig(backend, slots=2, window=0)
    states: list[DeviceWeight] = []
    made.streamer._on_access = lambda: states.append(made.table.weight(0))
    begin(made, [[0, 1]])
    made.streamer.access(0)
    made.streamer.access(1)
    assert states == [DeviceWeight.IN_USE, DeviceWeight.READY]
    assert backend.copies[0].done()


def test_streamer_prefetch_stops_before_a_stage_that_is_not_updated_and_goes_on_later(backend: LazyBackend) -> None:
    made, gate = rig(backend, slots=8, window=2), Gate()
    made.streamer.gate = gate
    begin(made, [[0, 1], [2, 3]])
    assert (backend.copies, gate.passed) == ([], []), "prefetch never waits for an update"
    made.streamer.access(0)
    assert gate.passed == [0]
    assert [block for block in range(8) if made.table.is_on_device(block)] == [0, 1, 2, 3]


def test_streamer_block_on_demand_is_copied_after_its_update(backend: LazyBackend) -> None:
    made, gate = rig(backend, slots=2, window=0), Gate()

    def update(stage: int) -> None:
        [weight] = made.partition.parameters
        made.pool.write(weight, torch.full(weight.shape, 7.0))

    gate.pass_through = update
    made.streamer.gate = gate
    begin(made, [[0]])
    assert set(made.streamer.access(0).tolist()) == {7.0}


def test_streamer_shared_weights_are_read_where_they_lie_and_take_no_slot(backend: LazyBackend) -> None:
    made = rig(backend, slots=2, window=1, shares_host=True)
    begin(made, [[0, 1], [2, 3]])
    for block in (0, 1, 2, 3):
        got = made.streamer.access(block)
        assert got.data_ptr() == made.expected(block).data_ptr()
        assert made.table.weight(block) is DeviceWeight.IN_USE
        assert made.table.slot_of[block] == SHARED
    assert backend.copies == []
    assert (made.arena.num_used, made.counters.bytes_in) == (0, 0)
    assert counted(made) == (4, 0, 0)
    slots = [made.streamer.take_slot()[0] for _ in range(2)]
    assert sorted(slots) == [0, 1], "the arena is all for gradients"
    for slot in slots:
        made.streamer.give_slot_back(slot)
    made.streamer.invalidate()
    assert not any(made.table.is_on_device(block) for block in range(8))


def test_streamer_resized_arena_is_used_from_the_next_step_on(backend: LazyBackend) -> None:
    made = rig(backend, slots=2, window=4)
    begin(made, [[0, 1, 2, 3]])
    made.streamer.access(0)
    made.streamer.invalidate()
    for slots in (4, 2, 8):
        made.streamer.resize(slots, BLOCK_NUMEL, torch.float32)
        made.arena.most_used_lately()
        begin(made, [[0, 1, 2, 3]])
        assert [torch.equal(made.streamer.access(block), made.expected(block)) for block in range(4)] == [True] * 4
        assert made.arena.most_used_lately() == min(slots, 4)
        made.streamer.invalidate()


def test_streamer_arena_is_not_resized_under_a_block_that_lies_in_it(backend: LazyBackend) -> None:
    made = rig(backend, slots=2, window=0)
    begin(made, [[0]])
    made.streamer.access(0)
    with pytest.raises(SlotNotTaken, match="1 slots are in use"):
        made.streamer.resize(4, BLOCK_NUMEL, torch.float32)


def test_streamer_policy_that_is_exchanged_between_steps_chooses_from_then_on(backend: LazyBackend) -> None:
    made = rig(backend, slots=2, window=0, policy=Policy.OPTIMAL)

    def left_for_third() -> int:
        begin(made, [[0, 1, 2, 0, 1]])
        for block in (0, 1, 2):
            made.streamer.access(block)
        [left] = [block for block in (0, 1) if not made.table.is_on_device(block)]
        made.streamer.invalidate()
        return left

    assert left_for_third() == 1, "it is needed last"
    made.streamer.use_policy(make_policy(Policy.LRU, 2))
    assert left_for_third() == 0, "it was used first"
