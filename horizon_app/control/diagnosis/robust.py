"""Numbers that single outliers don't move: level, noise, swing of a curve. For any finite values; overflow is inf."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

_SIGMAS_PER_MEDIAN = 1.4826
"""Of a normal distribution: the standard deviation in medians of the distance from the middle."""
_SIGMAS_IN_MIDDLE_HALF = 1.349
_REACH = 5
"""Values to each side that a running mean takes in."""


def mean(values: Sequence[float]) -> float:
    """Their mean; `statistics.fmean` raises where the sum overflows."""
    return sum(values) / len(values)


def share(part: float, whole: float) -> float:
    """Part of the whole; 0 where there is no whole."""
    return part / whole if whole > 0 else 0.0


def levels(values: Sequence[float], size: int) -> list[float]:
    """Medians of cells of `size` values, counted from the end, in order; what is left over at the start counts not."""
    begin = len(values) % size
    return [median(values[at : at + size]) for at in range(begin, len(values), size)]


def noise(values: Sequence[float]) -> float:
    """Standard deviation of one value around the curve's course, as neighbours tell; 0 for fewer than two."""
    jumps = [abs(after - before) for before, after in pairwise(values)]
    return median(jumps) * _SIGMAS_PER_MEDIAN / math.sqrt(2) if jumps else 0.0


def residuals(values: Sequence[float]) -> list[float]:
    """What is left of each value beside the mean of its surroundings."""
    found: list[float] = []
    for at, value in enumerate(values):
        reach = min(_REACH, at, len(values) - 1 - at)  # as far to both sides: a slope leaves nothing
        found.append(value - mean(values[at - reach : at + reach + 1]))
    return found


def swing(left: Sequence[float]) -> float:
    """Standard deviation, told by the middle half of these: a quarter on each side may be anything."""
    ordered = sorted(left)
    low, high = (ordered[round(part * (len(ordered) - 1))] for part in (0.25, 0.75))
    return (high - low) / _SIGMAS_IN_MIDDLE_HALF


def alternation(left: Sequence[float]) -> float:
    """How much each is like the one before it: 1 the same, 0 unrelated, -1 its opposite."""
    power = sum(value * value for value in left)
    along = sum(before * after for before, after in pairwise(left))
    found = along / power if power > 0 else 0.0
    return found if math.isfinite(found) else 0.0
