"""Replacement policies against exhaustive search and plain references."""

from collections.abc import Callable, Sequence
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.policy.lru import Lru
from horizon_app.engine.policy.optimal import Optimal, optimal_misses
from horizon_app.engine.policy.protocol import NEVER, ReplacementPolicy

SMALL_TRACES = st.lists(st.integers(0, 5), max_size=14)
TRACES = st.lists(st.integers(0, 25), max_size=150)
POLICIES = st.sampled_from([Policy.LRU, Policy.OPTIMAL])


def next_use(trace: Sequence[int], block: int, position: int) -> int:
    """By brute force: where `block` is asked for from `position` on."""
    return next((i for i in range(position, len(trace)) if trace[i] == block), NEVER)


def fewest_misses(trace: tuple[int, ...], capacity: int) -> int:
    """By exhaustive search over all choices of a victim."""

    @cache
    def search(position: int, resident: frozenset[int]) -> int:
        if position == len(trace):
            return 0
        block = trace[position]
        if block in resident:
            return search(position + 1, resident)
        if len(resident) < capacity:
            return 1 + search(position + 1, resident | {block})
        return 1 + min(search(position + 1, resident - {victim} | {block}) for victim in resident)

    return search(0, frozenset())


def replay(policy: ReplacementPolicy, trace: Sequence[int], capacity: int) -> list[int]:
    """Victims, in order, of a policy on a trace without prefetch."""
    resident: set[int] = set()
    victims: list[int] = []
    for position, block in enumerate(trace):
        if block not in resident:
            if len(resident) == capacity:
                victim = policy.victim(lambda _: True)
                assert victim in resident
                policy.removed(victim)
                resident.remove(victim)
                victims.append(victim)
            resident.add(block)
            policy.inserted(block, position)
        policy.used(block, next_use(trace, block, position + 1))
    return victims


def misses(policy: ReplacementPolicy, trace: Sequence[int], capacity: int) -> int:
    return len(replay(policy, trace, capacity)) + min(capacity, len(set(trace)))


def up_and_down(layers: int) -> list[int]:
    return [*range(layers), *reversed(range(layers))]


@given(SMALL_TRACES, st.integers(1, 4))
def test_optimal_misses_small_traces_equal_exhaustive_search(trace: list[int], capacity: int) -> None:
    assert optimal_misses(trace, capacity) == fewest_misses(tuple(trace), capacity)


@given(SMALL_TRACES, st.integers(1, 4))
def test_optimal_policy_small_traces_reaches_the_fewest_misses(trace: list[int], capacity: int) -> None:
    assert misses(Optimal(), trace, capacity) == fewest_misses(tuple(trace), capacity)


@given(TRACES, st.integers(1, 20))
def test_lru_any_trace_evicts_what_was_used_longest_ago(trace: list[int], capacity: int) -> None:
    young_last: list[int] = []
    expected: list[int] = []
    for block in trace:
        if block in young_last:
            young_last.remove(block)
        elif len(young_last) == capacity:
            expected.append(young_last.pop(0))
        young_last.append(block)
    assert replay(Lru(), trace, capacity) == expected


@given(TRACES, st.integers(1, 20))
def test_optimal_random_traces_never_misses_more_than_lru(trace: list[int], capacity: int) -> None:
    assert optimal_misses(trace, capacity) <= misses(Lru(), trace, capacity)


@given(st.integers(2, 80), st.integers(1, 80))
def test_optimal_up_and_down_misses_each_layer_once_and_again_what_did_not_fit(layers: int, slots: int) -> None:
    trace = up_and_down(layers)
    best = optimal_misses(trace, slots)
    assert best == layers + max(0, layers - slots)
    assert best <= misses(Lru(), trace, slots)


def test_lru_repeated_scan_misses_more_than_optimal() -> None:
    trace = list(range(8)) * 4
    assert misses(Lru(), trace, 6) == 32 > optimal_misses(trace, 6)


@given(POLICIES, st.lists(st.integers(0, 12), min_size=1, max_size=60), st.sets(st.integers(0, 12)))
def test_policy_victim_is_one_that_may_leave_and_forgets_none_of_those_that_may_not(
    name: Policy, trace: list[int], fixed: set[int]
) -> None:
    policy = make_policy(name)
    for position, block in enumerate(trace):
        if block in trace[:position]:
            policy.used(block, next_use(trace, block, position + 1))
        else:
            policy.inserted(block, next_use(trace, block, position + 1))
    resident, left = set(trace), set(trace)
    free: Callable[[int], bool] = lambda block: block not in fixed  # noqa: E731
    while (victim := policy.victim(free)) is not None:
        assert victim in left - fixed
        policy.removed(victim)
        left.remove(victim)
    assert left == resident & fixed, "everything that may leave was offered"
    while (victim := policy.victim(lambda _: True)) is not None:
        policy.removed(victim)
        left.remove(victim)
    assert left == set(), "what might not leave was remembered"


@given(POLICIES, st.lists(st.integers(0, 12), min_size=1, max_size=30))
def test_policy_asked_for_a_victim_twice_answers_the_same(name: Policy, trace: list[int]) -> None:
    policy = make_policy(name)
    for block in dict.fromkeys(trace):
        policy.inserted(block, next_use(trace, block, 1))
    assert policy.victim(lambda _: True) == policy.victim(lambda _: True)


@given(TRACES, st.integers(1, 20))
def test_optimal_ties_any_trace_are_broken_the_same_way(trace: list[int], capacity: int) -> None:
    assert replay(Optimal(), trace, capacity) == replay(Optimal(), trace, capacity)
