"""From the spec's word to a policy."""

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.lru import Lru
from horizon_app.engine.policy.optimal import Optimal
from horizon_app.engine.policy.protocol import ReplacementPolicy


def make_policy(name: Policy, capacity: int) -> ReplacementPolicy:
    """A fresh policy. Raises NotImplementedError for words that the spec refuses before a run gets here."""
    match name:
        case Policy.LRU:
            return Lru()
        case Policy.OPTIMAL:
            return Optimal()
        case _:
            raise NotImplementedError(f"policy {name.value} is not available yet")
