"""Replacement policies against exhaustive search, plain references and each other."""

from collections.abc import Callable, Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.policy.clock import Clock
from horizon_app.engine.policy.clock_pro import ClockPro
from horizon_app.engine.policy.contest import Contest
from horizon_app.engine.policy.foresight import Foresight
from horizon_app.engine.policy.lru import Lru
from horizon_app.engine.policy.next_uses import NextUses
from horizon_app.engine.policy.optimal import next_uses, optimal_misses
from horizon_app.engine.policy.protocol import NEVER, ReplacementPolicy
from tests.bench.policies import MissRatios, miss_ratios
from tests.support.traces import Eviction, Trace, guessed_trace, replay, standard_traces

SMALL_TRACES = st.lists(st.integers(0, 5), max_size=14)
ACCESSES = st.lists(st.integers(0, 25), max_size=150)
CAPACITIES = st.integers(1, 20)
POLICIES = st.sampled_from(Policy)
ANY: Callable[[int], bool] = lambda _: True  # noqa: E731


def told_trace(accesses: Sequence[int], stale_every: int | None = None) -> Trace:
    """A trace of which the schedule knows everything; compute steps of five accesses."""
    length = stale_every or max(1, len(accesses))
    schedules = (accesses[i : i + length] for i in range(0, len(accesses), length))
    steps = tuple(tuple((*part[i : i + 5],) for i in range(0, len(part), 5)) for part in schedules)
    return Trace(name="made up", steps=steps, stale=stale_every is not None)


def first_use(accesses: Sequence[int], block: int, position: int) -> int:
    """By brute force: where `block` is asked for from `position` on."""
    return next((i for i in range(position, len(accesses)) if accesses[i] == block), NEVER)


def fewest_misses(accesses: tuple[int, ...], capacity: int) -> int:
    """By exhaustive search over all choices of a victim."""

    @cache
    def search(position: int, resident: frozenset[int]) -> int:
        if position == len(accesses):
            return 0
        block = accesses[position]
        if block in resident:
            return search(position + 1, resident)
        if len(resident) < capacity:
            return 1 + search(position + 1, resident | {block})
        return 1 + min(search(position + 1, resident - {victim} | {block}) for victim in resident)

    return search(0, frozenset())


def plain_lru(accesses: Sequence[int], capacity: int) -> list[Eviction]:
    """Evictions of least recently used, on a list."""
    young_last: list[int] = []
    evictions: list[Eviction] = []
    for at, block in enumerate(accesses):
        if block in young_last:
            young_last.remove(block)
        elif len(young_last) == capacity:
            evictions.append(Eviction(at, young_last.pop(0)))
        young_last.append(block)
    return evictions


def plain_clock(accesses: Sequence[int], capacity: int) -> list[Eviction]:
    """Evictions of second chance, on a ring of frames with a bit each."""
    frames: list[int] = []
    bits: list[bool] = []
    evictions: list[Eviction] = []
    hand = 0
    for at, block in enumerate(accesses):
        if block in frames:
            bits[frames.index(block)] = True
        elif len(frames) < capacity:
            frames.append(block)
            bits.append(False)
        else:
            while bits[hand]:
                bits[hand] = False
                hand = (hand + 1) % capacity
            evictions.append(Eviction(at, frames[hand]))
            frames[hand] = block
            hand = (hand + 1) % capacity
    return evictions


def up_and_down(layers: int) -> list[int]:
    return [*range(layers), *reversed(range(layers))]


# -- against references


@given(ACCESSES)
def test_next_uses_any_accesses_equal_brute_force(accesses: list[int]) -> None:
    assert next_uses(accesses) == [first_use(accesses, block, i + 1) for i, block in enumerate(accesses)]


@given(SMALL_TRACES, st.integers(1, 4))
def test_optimal_misses_small_traces_equal_exhaustive_search(accesses: list[int], capacity: int) -> None:
    assert optimal_misses(accesses, capacity) == fewest_misses(tuple(accesses), capacity)


@given(st.sampled_from([Policy.OPTIMAL, Policy.SCHEDULE, Policy.CLOCK_PRO]), SMALL_TRACES, st.integers(1, 4))
def test_policies_told_the_next_use_small_traces_reach_the_fewest_misses(
    name: Policy, accesses: list[int], capacity: int
) -> None:
    misses = replay(make_policy(name, capacity), told_trace(accesses), capacity).misses
    assert misses == fewest_misses(tuple(accesses), capacity)


@given(ACCESSES, CAPACITIES)
def test_lru_any_trace_evicts_what_was_used_longest_ago(accesses: list[int], capacity: int) -> None:
    assert replay(Lru(), guessed_trace("", accesses), capacity).evictions == plain_lru(accesses, capacity)


@given(ACCESSES, CAPACITIES)
def test_clock_any_trace_evicts_as_a_ring_of_frames_does(accesses: list[int], capacity: int) -> None:
    assert replay(Clock(), guessed_trace("", accesses), capacity).evictions == plain_clock(accesses, capacity)


@given(ACCESSES, CAPACITIES)
def test_schedule_next_use_unknown_goes_by_recency(accesses: list[int], capacity: int) -> None:
    trace = guessed_trace("", accesses)
    assert replay(make_policy(Policy.SCHEDULE, capacity), trace, capacity).evictions == plain_lru(accesses, capacity)


@given(POLICIES, ACCESSES, CAPACITIES, st.booleans())
def test_policy_any_trace_never_misses_less_than_optimal(
    name: Policy, accesses: list[int], capacity: int, told: bool
) -> None:
    trace = told_trace(accesses) if told else guessed_trace("", accesses)
    assert replay(make_policy(name, capacity), trace, capacity).misses >= optimal_misses(accesses, capacity)


@given(st.integers(2, 80), st.integers(1, 80))
def test_optimal_up_and_down_misses_each_layer_once_and_again_what_did_not_fit(layers: int, slots: int) -> None:
    assert optimal_misses(up_and_down(layers), slots) == layers + max(0, layers - slots)


def test_lru_repeated_scan_misses_everything_where_told_policies_do_not() -> None:
    trace = told_trace(list(range(8)) * 4)
    assert replay(Lru(), trace, 6).misses == 32
    assert replay(make_policy(Policy.CLOCK_PRO, 6), trace, 6).misses == trace.optimal_misses(6) < 32


# -- on the standard traces


@pytest.fixture(scope="module")
def ratios() -> list[MissRatios]:
    return miss_ratios()


def test_clock_pro_standard_traces_is_never_worse_than_lru(ratios: list[MissRatios]) -> None:
    worse = [row for row in ratios if row.ratios[Policy.CLOCK_PRO] > row.ratios[Policy.LRU]]
    assert worse == []


def test_policies_told_the_next_use_standard_traces_are_optimal(ratios: list[MissRatios]) -> None:
    told = {trace.name for trace in standard_traces() if not trace.guessed}
    rows = [row for row in ratios if row.trace in told]
    assert len(rows) >= 25
    for name in (Policy.CLOCK_PRO, Policy.SCHEDULE, Policy.OPTIMAL):
        assert {row.ratios[name] for row in rows} == {1.0}


def test_clock_pro_scans_between_skewed_rows_misses_at_least_a_tenth_less_than_lru(ratios: list[MissRatios]) -> None:
    rows = [row for row in ratios if row.trace == "scans between skewed rows, guessed"]
    assert len(rows) == 5
    assert all(row.ratios[Policy.CLOCK_PRO] < 0.9 * row.ratios[Policy.LRU] for row in rows)


# -- what every policy keeps to


@given(POLICIES, st.lists(st.integers(0, 12), min_size=1, max_size=60), st.sets(st.integers(0, 12)), st.booleans())
def test_policy_victim_is_one_that_may_leave_and_forgets_none_of_those_that_may_not(
    name: Policy, accesses: list[int], fixed: set[int], told: bool
) -> None:
    policy = make_policy(name, 13)
    for position, block in enumerate(accesses):
        next_use = first_use(accesses, block, position + 1) if told or block % 2 else NEVER
        if block in accesses[:position]:
            policy.used(block, next_use)
        else:
            policy.inserted(block, next_use)
    resident, left = set(accesses), set(accesses)
    free: Callable[[int], bool] = lambda block: block not in fixed  # noqa: E731
    while (victim := policy.victim(free)) is not None:
        assert policy.victim(free) == victim, "asked again, it answers the same"
        assert victim in left - fixed
        policy.removed(victim)
        left.remove(victim)
    assert left == resident & fixed, "everything that may leave was offered"
    while (victim := policy.victim(ANY)) is not None:
        policy.removed(victim)
        left.remove(victim)
    assert left == set(), "what might not leave was remembered"


@given(POLICIES, ACCESSES, CAPACITIES, st.booleans())
def test_policy_any_trace_decides_the_same_way_again(
    name: Policy, accesses: list[int], capacity: int, told: bool
) -> None:
    trace = told_trace(accesses, 40) if told else guessed_trace("", accesses, 40)
    assert replay(make_policy(name, capacity), trace, capacity) == replay(make_policy(name, capacity), trace, capacity)


@given(POLICIES, ACCESSES, CAPACITIES)
def test_policy_all_blocks_gone_at_each_border_goes_on_as_a_new_one_would(
    name: Policy, accesses: list[int], capacity: int
) -> None:
    whole = replay(make_policy(name, capacity), told_trace(accesses, 40), capacity)
    parts = [accesses[i : i + 40] for i in range(0, len(accesses), 40)]
    alone = [replay(make_policy(name, capacity), told_trace(part, 40), capacity) for part in parts]
    assert whole.misses == sum(part.misses for part in alone)


@given(POLICIES, ACCESSES, CAPACITIES, CAPACITIES)
def test_policy_resized_between_steps_serves_the_new_size(
    name: Policy, accesses: list[int], first: int, second: int
) -> None:
    policy = make_policy(name, first)
    for capacity in (first, second, first):
        policy.resized(capacity)
        assert replay(policy, guessed_trace("", accesses, 50), capacity).misses >= len(set(accesses[:50]))


# -- the window, and what the schedule says


@given(
    st.sampled_from([Policy.SCHEDULE, Policy.CLOCK_PRO]),
    st.dictionaries(st.integers(0, 30), st.one_of(st.just(NEVER), st.integers(100, 200)), min_size=1),
    st.integers(100, 200),
)
def test_informed_policy_offers_no_block_of_the_window_while_another_may_leave(
    name: Policy, next_use_of: dict[int, int], window_end: int
) -> None:
    policy = make_policy(name, len(next_use_of))
    policy.horizon(100, window_end)
    for block, next_use in next_use_of.items():
        policy.inserted(block, next_use)
    order: list[int] = []
    while (victim := policy.victim(ANY)) is not None:
        policy.removed(victim)
        order.append(victim)
    needed = [next_use_of[block] < window_end for block in order]
    assert needed == sorted(needed)


@pytest.mark.parametrize("name", [Policy.SCHEDULE, Policy.CLOCK_PRO])
def test_informed_policy_spent_blocks_leave_first_until_the_schedule_begins_anew(name: Policy) -> None:
    policy = make_policy(name, 4)
    policy.horizon(10, 10)
    for block, next_use in ((1, 10), (2, 11), (3, 500), (4, NEVER)):
        policy.inserted(block, next_use)
    policy.used(1, NEVER)
    policy.used(2, NEVER)
    assert policy.victim(ANY) == 1
    policy.horizon(0, 0)
    assert policy.victim(ANY) == 3, "blocks that were used a moment ago are a better guess than one 500 ahead"


@pytest.mark.parametrize("name", [Policy.SCHEDULE, Policy.CLOCK_PRO, Policy.OPTIMAL])
def test_informed_policy_use_that_did_not_come_no_longer_keeps_a_block(name: Policy) -> None:
    policy = make_policy(name, 2)
    policy.inserted(1, 5)
    policy.inserted(2, 40)
    assert policy.victim(ANY) == 2
    policy.horizon(30, 50)
    assert policy.victim(ANY) == 1


@given(ACCESSES, CAPACITIES)
def test_clock_pro_next_use_unknown_is_the_contest_of_clock_pro_and_lru(accesses: list[int], capacity: int) -> None:
    trace = guessed_trace("", accesses)
    contest = Contest(challenger=ClockPro(capacity), incumbent=Lru(), capacity=capacity)
    assert replay(make_policy(Policy.CLOCK_PRO, capacity), trace, capacity) == replay(contest, trace, capacity)
    assert replay(Foresight(ClockPro(capacity)), trace, capacity) == replay(ClockPro(capacity), trace, capacity)


def contest_of(challenger: ReplacementPolicy, incumbent: ReplacementPolicy) -> Contest:
    return Contest(challenger=challenger, incumbent=incumbent, capacity=6)


class Newest(Lru):
    """Evicts the block that was used last: right on scans, wrong nearly everywhere else."""

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        return next((block for block in reversed(self._order) if may_leave(block)), None)


SCAN = list(range(8)) * 60
PHASES = [phase % 10 * 4 + i for phase in range(60) for _ in range(6) for i in range(4)]


@pytest.mark.parametrize(("accesses", "right"), [(SCAN, Newest()), (PHASES, Lru())], ids=["scan", "phases"])
def test_contest_either_side_is_right_ends_with_that_one_choosing(
    accesses: list[int], right: ReplacementPolicy
) -> None:
    trace = guessed_trace("", accesses)
    best = replay(right, trace, 6).misses
    worst = max(replay(Newest(), trace, 6).misses, replay(Lru(), trace, 6).misses)
    for contest in (contest_of(Newest(), Lru()), contest_of(Lru(), Newest())):
        misses = replay(contest, trace, 6).misses
        assert best <= misses <= best + 110 < worst, "what it costs to find out is bounded"


@given(ACCESSES, CAPACITIES)
def test_contest_any_trace_remembers_at_most_as_many_disputes_as_slots(accesses: list[int], capacity: int) -> None:
    contest = Contest(challenger=Newest(), incumbent=Lru(), capacity=capacity)
    replay(contest, guessed_trace("", accesses, 60), capacity)
    assert len(contest._disputes) <= capacity
    assert sum(len(left) for left in contest._left_for.values()) == len(contest._disputes)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=60), st.integers(0, 40))
def test_next_uses_any_calls_equal_a_dictionary(told: list[tuple[int, int]], position: int) -> None:
    order, plain = NextUses(), dict[int, int]()
    for block, next_use in told:
        order.tell(block, next_use)
        plain[block] = next_use
    overdue = sorted((next_use, -block) for block, next_use in plain.items() if next_use < position)
    assert order.take_overdue(position) == [-negative for _, negative in overdue]
    plain = {block: next_use for block, next_use in plain.items() if next_use >= position}
    assert len(order) == len(plain)
    while plain:
        farthest = max(plain, key=lambda block: (plain[block], -block))
        assert order.farthest(ANY) == farthest
        assert order[farthest] == plain.pop(farthest)
        order.forget(farthest)
        assert farthest not in order
    assert order.farthest(ANY) is None
