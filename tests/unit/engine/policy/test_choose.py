import pytest

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.policy.lru import Lru
from horizon_app.engine.policy.optimal import Optimal
from horizon_app.engine.policy.protocol import NEVER

AVAILABLE = {Policy.LRU: Lru, Policy.OPTIMAL: Optimal}


@pytest.mark.parametrize(("name", "kind"), list(AVAILABLE.items()))
def test_make_policy_available_word_gives_a_fresh_one_each_time(name: Policy, kind: type) -> None:
    first, second = make_policy(name), make_policy(name)
    assert type(first) is kind
    first.inserted(3, NEVER)
    assert second.victim(lambda _: True) is None


@pytest.mark.parametrize("name", sorted(set(Policy) - set(AVAILABLE)))
def test_make_policy_word_of_later_is_refused_by_name(name: Policy) -> None:
    with pytest.raises(NotImplementedError, match=name.value):
        make_policy(name)


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
