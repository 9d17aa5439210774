"""From the spec's word to a policy."""

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.clock import Clock
from horizon_app.engine.policy.clock_pro import ClockPro
from horizon_app.engine.policy.foresight import Foresight
from horizon_app.engine.policy.lru import Lru
from horizon_app.engine.policy.optimal import Optimal
from horizon_app.engine.policy.protocol import ReplacementPolicy


def make_policy(name: Policy, capacity: int) -> ReplacementPolicy:
    """A fresh policy for a tier of `capacity` slots.

    `schedule` and `clock_pro` differ in what they make of blocks that the schedule says nothing of: by recency alone,
    or by recency and the distance between uses.
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
            return Foresight(ClockPro(capacity))
