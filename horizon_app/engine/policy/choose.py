"""From the spec's word to a policy."""

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.clock import Clock
from horizon_app.engine.policy.clock_pro import ClockPro
from horizon_app.engine.policy.contest import Contest
from horizon_app.engine.policy.foresight import Foresight
from horizon_app.engine.policy.lru import Lru
from horizon_app.engine.policy.optimal import Optimal
from horizon_app.engine.policy.protocol import ReplacementPolicy


def make_policy(name: Policy, capacity: int) -> ReplacementPolicy:
    """A fresh policy for a tier of `capacity` slots.

    `schedule` and `clock_pro` differ in what they make of blocks that the schedule says nothing of: `schedule` goes by
    recency, `clock_pro` by the distance between uses too, where that proves better. `optimal` lets those leave first.
    """
    match name:
        case Policy.LRU:
            return Lru()
        case Policy.CLOCK:
            return Clock()
        case Policy.OPTIMAL:
            return Optimal()
        case Policy.SCHEDULE:
            return Foresight(Lru())
        case Policy.CLOCK_PRO:
            learned = Contest(challenger=ClockPro(capacity), incumbent=Lru(), capacity=capacity)
            return Foresight(learned)
