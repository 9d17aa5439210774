"""The streamer under copies that end late and in any order, for every trace, arena, window and policy."""

import threading
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.optimal import optimal_misses
from horizon_app.engine.streaming.backends.cpu import CpuBackend
from horizon_app.engine.streaming.backends.protocol import Backend
from tests.support.chaos import ChaosBackend
from tests.support.streaming_rig import BLOCK_NUMEL, CountingBackend, Rig, first_use, schedule_of

WATCHDOG_S = 30.0
MOST_BLOCKS = 12

STEPS = st.lists(st.lists(st.integers(0, MOST_BLOCKS - 1), max_size=12), min_size=1, max_size=8)
ARENAS = st.sampled_from([2, 3, 5, MOST_BLOCKS, MOST_BLOCKS + 4])
WINDOWS = st.sampled_from([0, 1, 3, 8])
POLICIES = st.sampled_from(list(Policy))


def watched(work: Callable[[], None]) -> None:
    """Run `work` on a thread of its own: a deadlock fails the test instead of hanging it."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - raised again on the test's thread
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WATCHDOG_S)
    assert not thread.is_alive(), "deadlock"
    if failures:
        raise failures[0]


def with_rig(
    slots: int, window: int, policy: Policy, work: Callable[[Rig], None], backend: Backend | None = None
) -> None:
    counting = CountingBackend(backend or ChaosBackend(slots + window))
    try:
        watched(lambda: work(Rig(MOST_BLOCKS, slots, window, policy, counting)))
    finally:
        counting.close()


@given(STEPS, ARENAS, WINDOWS, POLICIES, st.data())
def test_streamer_any_trace_every_access_finds_its_block_and_nothing_is_lost(
    steps: list[list[int]], slots: int, window: int, policy: Policy, data: st.DataObject
) -> None:
    """With gradients that take slots in between, as in a backward pass; the rig checks the arena at every access."""
    count = len(schedule_of(steps).accesses)
    gradients = frozenset(data.draw(st.sets(st.integers(0, max(0, count - 1)))))

    def work(rig: Rig) -> None:
        for _ in range(2):  # the second step starts from what the first has left
            rig.walk(steps, gradients)
        counters = rig.counters
        assert counters.accesses == 2 * count
        assert counters.hits + counters.late + counters.misses == counters.accesses
        assert counters.bytes_in == rig.backend.bytes_in == counters.fetches * BLOCK_NUMEL * 4
        assert rig.arena.most_used <= slots

    with_rig(slots, window, policy, work)


@given(STEPS, ARENAS, WINDOWS, POLICIES)
def test_streamer_prefetch_never_evicts_what_is_needed_sooner_than_what_it_brings(
    steps: list[list[int]], slots: int, window: int, policy: Policy
) -> None:
    def work(rig: Rig) -> None:
        accesses = rig.walk(steps).accesses
        for move in rig.prefetched:
            left = first_use(accesses, move.left, move.position)
            arrived = first_use(accesses, move.arrived, move.position)
            assert left > arrived, f"at {move.position}: {move}"

    with_rig(slots, window, policy, work)


@given(STEPS, ARENAS, POLICIES)
def test_streamer_without_window_fetches_on_demand_only(steps: list[list[int]], slots: int, policy: Policy) -> None:
    def work(rig: Rig) -> None:
        schedule = rig.walk(steps)
        assert rig.prefetched == []
        assert rig.counters.fetches == rig.counters.misses
        assert rig.counters.late == 0
        if policy is Policy.OPTIMAL:
            assert rig.counters.misses == optimal_misses(schedule.accesses, slots)

    with_rig(slots, 0, policy, work)


@given(STEPS, WINDOWS, POLICIES)
def test_streamer_arena_that_holds_everything_fetches_each_block_once(
    steps: list[list[int]], window: int, policy: Policy
) -> None:
    def work(rig: Rig) -> None:
        schedule = rig.walk(steps)
        assert rig.counters.fetches == len(set(schedule.accesses))

    with_rig(MOST_BLOCKS + 4, window, policy, work)


@given(STEPS, ARENAS, WINDOWS, POLICIES)
def test_streamer_no_way_to_prefetch_moves_less_than_belady(
    steps: list[list[int]], slots: int, window: int, policy: Policy
) -> None:
    """Bringing a block early saves time, never a transfer."""

    def work(rig: Rig) -> None:
        schedule = rig.walk(steps)
        assert rig.counters.fetches >= optimal_misses(schedule.accesses, slots)

    with_rig(slots, window, policy, work)


@settings(max_examples=10)
@given(st.lists(st.permutations(range(8)), min_size=2, max_size=4), POLICIES)
def test_streamer_window_over_everything_leaves_no_miss_in_a_large_arena(
    steps: list[list[int]], policy: Policy
) -> None:
    def work(rig: Rig) -> None:
        rig.walk(steps)
        assert rig.counters.misses == 0

    with_rig(MOST_BLOCKS, 8, policy, work, CpuBackend())
