"""Waiting for a worker's answer where no server runs."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horizon_app.contracts.knobs import ChangedKnobs
    from horizon_app.control.knobs import Asked
    from horizon_app.control.workstation import Workstation

WAIT_S = 5.0
_LOOK_S = 0.1


def settle_alone(station: "Workstation", asked: "Asked", wait_s: float = WAIT_S) -> "ChangedKnobs":
    """What came of changes, once the worker has answered or `wait_s` are over; nobody else reads its journal.

    Raises KnobsRefused where it has refused every one.
    """
    from horizon_app.control.knobs import is_answered, refuse_refused

    end = time.monotonic() + wait_s
    while True:
        found = station.knobs.outcome(asked)
        if is_answered(found) or time.monotonic() >= end:
            return refuse_refused(found)
        time.sleep(_LOOK_S)
        station.catch_up()
