"""Thins a series to the minimum, the maximum and the last point of each bucket. Pure."""

from collections.abc import Iterable, Iterator

Point = tuple[int, float]


def thin(points: Iterable[Point], *, first: int, last: int, max_points: int) -> list[Point]:
    """At most about `max_points` of `points`, which rise in steps from `first` to `last`.

    Steps are cut into equal buckets; of each bucket the points with the smallest and the largest value and its last
    point are kept, in order. So no spike is lost, and the newest value always is the last one.
    """
    buckets = max(1, max_points // 3)
    width = max(1, -(-(last - first + 1) // buckets))
    kept: list[Point] = []
    for bucket in _buckets(points, first, width):
        kept.extend(bucket)
    return kept


def _buckets(points: Iterable[Point], first: int, width: int) -> Iterator[list[Point]]:
    end = first + width
    low = high = newest = None
    for point in points:
        step, value = point
        if low is None or high is None or newest is None or step >= end:
            if low is not None and high is not None and newest is not None:
                yield sorted({low, high, newest})
            end += max(0, step - end + width) // width * width
            low = high = newest = point
            continue
        if value < low[1]:
            low = point
        elif value > high[1]:
            high = point
        newest = point
    if low is not None and high is not None and newest is not None:
        yield sorted({low, high, newest})
