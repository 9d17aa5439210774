"""The table of legal transitions."""

from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from horizon_app.contracts.run_state import ENDED, LIVE, TRANSITIONS, RunState, is_legal


def test_table_names_every_state_once() -> None:
    assert set(TRANSITIONS) == set(RunState)
    assert LIVE.isdisjoint(ENDED)
    assert set(RunState) == LIVE | ENDED | {RunState.QUEUED}


def test_no_state_follows_itself() -> None:
    assert not any(is_legal(state, state) for state in RunState)


def test_ended_runs_only_ever_queue_again() -> None:
    for state in ENDED:
        assert TRANSITIONS[state] == {RunState.QUEUED}


def test_every_live_state_can_be_interrupted_and_fail() -> None:
    for state, end in product(LIVE, (RunState.INTERRUPTED, RunState.FAILED)):
        assert is_legal(state, end)


def test_a_worker_is_only_started_from_the_queue() -> None:
    assert [state for state in RunState if is_legal(state, RunState.STARTING)] == [RunState.QUEUED]


@given(st.lists(st.sampled_from(list(RunState)), max_size=30))
def test_a_walk_along_the_table_ends_only_once_before_it_queues_again(wishes: list[RunState]) -> None:
    state = RunState.QUEUED
    walk = [state]
    for wish in wishes:
        if is_legal(state, wish):
            state = wish
            walk.append(state)
    for before, after in pairwise(walk):
        if before in ENDED:
            assert after is RunState.QUEUED
