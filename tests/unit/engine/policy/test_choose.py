import pytest

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.policy.clock import Clock
from horizon_app.engine.policy.foresight import Foresight
from horizon_app.engine.policy.lru import Lru
from horizon_app.engine.policy.optimal import Optimal
from horizon_app.engine.policy.protocol import NEVER

KINDS = {
    Policy.LRU: Lru,
    Policy.CLOCK: Clock,
    Policy.OPTIMAL: Optimal,
    Policy.SCHEDULE: Foresight,
    Policy.CLOCK_PRO: Foresight,
}


@pytest.mark.parametrize("name", Policy)
def test_make_policy_every_word_gives_a_fresh_one_each_time(name: Policy) -> None:
    first, second = make_policy(name, 4), make_policy(name, 4)
    assert type(first) is KINDS[name]
    first.inserted(3, NEVER)
    assert first.victim(lambda _: True) == 3
    assert second.victim(lambda _: True) is None


def test_optimal_tie_of_two_never_used_again_leaves_the_lower_number() -> None:
    policy = Optimal()
    for block in (7, 2, 5):
        policy.inserted(block, NEVER)
    assert policy.victim(lambda _: True) == 2


def test_optimal_next_use_told_again_replaces_the_old_one() -> None:
    policy = Optimal()
    policy.inserted(1, 100)
    policy.inserted(2, 50)
    policy.used(1, 10)
    assert policy.victim(lambda _: True) == 2


def test_lru_block_used_again_outlives_the_others() -> None:
    policy = Lru()
    for block in (1, 2, 3):
        policy.inserted(block, 0)
    policy.used(1, 0)
    assert policy.victim(lambda _: True) == 2


def test_clock_use_that_a_block_was_brought_in_for_is_no_second_chance() -> None:
    policy = Clock()
    for block in (1, 2, 3):
        policy.inserted(block, 0)
        policy.used(block, 0)
    assert policy.victim(lambda _: True) == 1
    policy.used(1, 0)
    assert policy.victim(lambda _: True) == 2
