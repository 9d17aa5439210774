"""Moving averages of a metric over all points that are handed in, however many there are."""

from collections.abc import Iterable

from horizon_app.control.reports.curves import Point

_SPANS = 60
_SHOWN = 400


def smoothed(points: Iterable[Point], count: int) -> list[Point]:
    """A debiased exponential moving average over about a sixtieth of `count` points, at some hundred places."""
    keep = 1 - 1 / max(2.0, count / _SPANS)
    every = max(1, count // _SHOWN)
    average, weight = 0.0, 0.0
    shown: list[Point] = []
    newest: Point | None = None
    for number, (x, value) in enumerate(points):
        if value is None:
            continue
        average, weight = keep * average + (1 - keep) * value, keep * weight + (1 - keep)
        newest = (float(x), average / weight)
        if number % every == 0:
            shown.append(newest)
    if newest is not None and (not shown or shown[-1] != newest):
        shown.append(newest)
    return shown
