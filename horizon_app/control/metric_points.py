"""Every recorded point of a run's metrics, some thousand steps at a time: memory stays flat however long the run is."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from horizon_app.store.database import Database
from horizon_app.store.metrics import StoredSeries, series

WINDOW_STEPS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """All points of some optimizer steps."""

    first: int
    last: int
    series: Mapping[str, StoredSeries]


def windows(database: Database, run_id: str, keys: Sequence[str], last_step: int) -> Generator[Window]:
    """Every point of these metrics up to `last_step`, in order of steps.

    Each window is read by itself: a client that is slow to take an export must not keep a transaction open.
    """
    for first in range(0, last_step + 1, WINDOW_STEPS):
        last = min(last_step, first + WINDOW_STEPS - 1)
        with database.read() as tx:
            # As many points as there are steps: nothing is thinned away.
            found = series(tx, run_id, keys, first=first, last=last, max_points=WINDOW_STEPS)
        yield Window(first=first, last=last, series=found)
