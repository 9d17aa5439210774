"""Clock-Pro against a simulation on one list, where each hand searches for its page from the oldest on."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.engine.policy.clock_pro import ClockPro
from tests.support.traces import guessed_trace, replay

ACCESSES = st.lists(st.integers(0, 25), max_size=200)
CAPACITIES = st.integers(1, 20)
STALE_EVERY = st.one_of(st.none(), st.integers(20, 80))


@dataclass
class Entry:
    block: int
    kind: str  # "hot", "cold", "absent"
    on_test: bool
    bit: bool = False
    awaited: bool = True
    left_hot: bool = False


class OneList:
    """The whole clock as a list, oldest placement first; every search begins at the oldest."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.cold_target = 1
        self.clock: list[Entry] = []

    def of_kind(self, kind: str) -> list[Entry]:
        return [entry for entry in self.clock if entry.kind == kind]

    def entry(self, block: int) -> Entry | None:
        return next((entry for entry in self.clock if entry.block == block), None)

    def to_head(self, entry: Entry) -> None:
        self.clock.remove(entry)
        self.clock.append(entry)

    def adapt(self, change: int) -> None:
        self.cold_target = min(max(self.cold_target + change, 1), self.capacity)

    def end_test(self, entry: Entry) -> None:
        entry.on_test = False
        if not entry.bit and not entry.left_hot:
            self.adapt(-1)
        if entry.kind == "absent":
            self.clock.remove(entry)

    def bound(self) -> None:
        while len(self.of_kind("absent")) > self.capacity:
            self.end_test(next(entry for entry in self.clock if entry.on_test))

    def inserted(self, block: int, next_use: int) -> None:
        known = self.entry(block)
        if known is None:
            self.clock.append(Entry(block, "cold", on_test=True))
            return
        self.clock.remove(known)
        if not known.left_hot:
            self.adapt(+1)
        self.clock.append(Entry(block, "hot", on_test=False))

    def used(self, block: int, next_use: int) -> None:
        entry = self.entry(block)
        assert entry is not None
        if not entry.awaited:
            entry.bit = True
        entry.awaited = False

    def removed(self, block: int) -> None:
        entry = self.entry(block)
        assert entry is not None
        if entry.kind == "hot":
            self.to_head(entry)
            entry.on_test = entry.left_hot = True
        entry.kind = "absent"
        if not entry.on_test:
            self.clock.remove(entry)
        self.bound()

    def horizon(self, position: int, window_end: int) -> None:
        pass

    def resized(self, capacity: int) -> None:
        self.capacity = capacity
        self.adapt(0)
        self.bound()

    def turn_hot_hand(self) -> None:
        entry = self.of_kind("hot")[0]
        if not entry.bit:
            entry.kind = "cold"
        entry.bit = False
        self.to_head(entry)
        if self.of_kind("hot"):
            place = self.clock.index(self.of_kind("hot")[0])
            for passed in self.clock[:place]:
                if passed.on_test:
                    self.end_test(passed)

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        while True:
            if self.of_kind("hot") and len(self.of_kind("cold")) < self.cold_target:
                self.turn_hot_hand()
                continue
            entry = self.of_kind("cold")[0]
            if not entry.bit:
                return entry.block
            entry.bit = False
            self.to_head(entry)
            if entry.on_test:
                entry.kind, entry.on_test = "hot", False
                self.adapt(+1)
            else:
                entry.on_test = True


def same_state(policy: ClockPro, plain: OneList) -> bool:
    return (
        policy._cold_target == plain.cold_target
        and list(policy._hot) == [entry.block for entry in plain.of_kind("hot")]
        and list(policy._cold) == [entry.block for entry in plain.of_kind("cold")]
        and list(policy._in_test) == [entry.block for entry in plain.clock if entry.on_test]
        and policy._absent.keys() == {entry.block for entry in plain.of_kind("absent")}
    )


@given(ACCESSES, CAPACITIES, STALE_EVERY)
def test_clock_pro_any_trace_evicts_as_one_list_does(
    accesses: list[int], capacity: int, stale_every: int | None
) -> None:
    trace = guessed_trace("", accesses, stale_every)
    policy, plain = ClockPro(capacity), OneList(capacity)
    assert replay(policy, trace, capacity) == replay(plain, trace, capacity)
    assert same_state(policy, plain)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("stale_every", [None, 70])
def test_clock_pro_long_skewed_traces_evict_as_one_list_does(seed: int, stale_every: int | None) -> None:
    draw = random.Random(seed)
    weights = [0.9**rank for rank in range(40)]
    trace = guessed_trace("", draw.choices(range(40), weights, k=500), stale_every)
    for capacity in (3, 9, 20):
        policy, plain = ClockPro(capacity), OneList(capacity)
        assert replay(policy, trace, capacity) == replay(plain, trace, capacity)
        assert same_state(policy, plain)


@given(ACCESSES, CAPACITIES, CAPACITIES)
def test_clock_pro_resized_between_steps_stays_equal_to_one_list(accesses: list[int], first: int, second: int) -> None:
    policy, plain = ClockPro(first), OneList(first)
    for capacity in (first, second):
        policy.resized(capacity)
        plain.resized(capacity)
        trace = guessed_trace("", accesses, 50)
        assert replay(policy, trace, capacity) == replay(plain, trace, capacity)
        assert same_state(policy, plain)
        assert len(policy._absent) <= capacity


def check_census(policy: ClockPro, resident: set[int], capacity: int) -> None:
    hot, cold, absent = set(policy._hot), set(policy._cold), set(policy._absent)
    assert hot | cold == resident, "every block that is there is hot or cold"
    assert not hot & cold
    assert not absent & resident
    assert len(absent) <= capacity
    assert absent <= set(policy._in_test) <= absent | cold
    assert 1 <= policy._cold_target <= capacity


@given(st.integers(0, 999), CAPACITIES)
def test_clock_pro_any_calls_every_resident_is_hot_or_cold_and_few_others_are_remembered(
    seed: int, capacity: int
) -> None:
    draw = random.Random(seed)
    moves = [(draw.choice((draw.randrange(26), draw.randrange(6))), draw.randrange(16)) for _ in range(300)]
    policy = ClockPro(capacity)
    resident: set[int] = set()
    for block, pinned in moves:
        if block in resident and pinned == 0:
            policy.removed(block)  # out of date
            resident.remove(block)
        elif block in resident:
            policy.used(block, 0)
        else:
            if len(resident) == capacity:
                victim = policy.victim(lambda b, pinned=pinned: b % 4 != pinned % 4)
                free = {b for b in resident if b % 4 != pinned % 4}
                assert victim in (free & set(policy._cold) or free or {None}), "hot ones only where no cold one may"
                victim = policy.victim(lambda _: True) if victim is None else victim
                assert victim is not None
                policy.removed(victim)
                resident.remove(victim)
            policy.inserted(block, 0)
            resident.add(block)
        check_census(policy, resident, capacity)


def test_clock_pro_block_that_comes_back_within_its_test_period_is_hot_and_outlives_a_scan() -> None:
    returning = [1, 2, 3, 4, 5, 1]  # 1 made room for 5, and is hot once it comes back
    scan = list(range(10, 60))
    trace = guessed_trace("", [*returning, *scan, 1])
    assert replay(ClockPro(4), trace, 4).misses == len(returning) + len(scan)
