"""All checks of a run, in the order in which they are shown."""

from horizon_app.contracts.run_checks import Finding
from horizon_app.control.diagnosis.divergence import divergence
from horizon_app.control.diagnosis.facts import RunFacts
from horizon_app.control.diagnosis.oscillation import oscillation
from horizon_app.control.diagnosis.shortage import shortage
from horizon_app.control.diagnosis.slowness import slowness
from horizon_app.control.diagnosis.starvation import starvation


def diagnose(facts: RunFacts) -> list[Finding]:
    """What each check finds; never raises, whatever was recorded."""
    return [starvation(facts), shortage(facts), divergence(facts), oscillation(facts), slowness(facts)]
