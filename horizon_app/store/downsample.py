"""Thins a series to the minimum, the maximum and the last point of each bucket. Pure.

Buckets are fixed: of a width that is a power of two, and each begins at a multiple of it. So what a bucket keeps can be
worked out from what narrower buckets have kept (`Extremes`), and the answer is the same as from the points themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Steps = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Points:
    """Steps, rising, and the value at each: NaN and infinities as themselves."""

    steps: Steps
    values: Values

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """One after the other."""
        return cls(steps=np.concatenate([p.steps for p in parts]), values=np.concatenate([p.values for p in parts]))

    def between(self, first: int, last: int) -> "Points":
        """Those from step `first` to step `last`, both included."""
        part = slice(np.searchsorted(self.steps, first), np.searchsorted(self.steps, last, side="right"))
        return Points(steps=self.steps[part], values=self.values[part])

    def in_order(self) -> "Points":
        """The same by rising steps."""
        order = np.argsort(self.steps, kind="stable")
        return Points(steps=self.steps[order], values=self.values[order])

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Points":
        """Those that are chosen."""
        return Points(steps=self.steps[chosen], values=self.values[chosen])


@dataclass(frozen=True, kw_only=True, slots=True)
class Extremes:
    """Of each bucket with a finite point the first lowest, the first highest and the last one; a row a bucket."""

    low_at: Steps
    low: Values
    high_at: Steps
    high: Values
    last_at: Steps
    last: Values

    @classmethod
    def of(cls, points: Points) -> Self:
        """Finite points as buckets of their own."""
        at, value = points.steps, points.values
        return cls(low_at=at, low=value, high_at=at, high=value, last_at=at, last=value)

    @classmethod
    def join(cls, parts: Iterable[Self]) -> Self:
        """One after the other; at least one."""
        rows = list(parts)
        return cls(**{f.name: np.concatenate([getattr(row, f.name) for row in rows]) for f in fields(cls)})

    def in_order(self) -> Self:
        """The same by rising steps."""
        order = np.argsort(self.last_at, kind="stable")
        return type(self)(**{f.name: getattr(self, f.name)[order] for f in fields(self)})

    def widen(self, width: int) -> "Extremes":
        """The same for buckets of `width` steps, of which each of these lies within one."""
        bucket = self.last_at // width
        begins = np.flatnonzero(_changes(bucket))
        if len(begins) == len(bucket):
            return self
        lowest, highest = _first_best(np.minimum, self.low, begins), _first_best(np.maximum, self.high, begins)
        ends = np.append(begins[1:], len(bucket)) - 1
        return Extremes(
            low_at=self.low_at[lowest], low=self.low[lowest], high_at=self.high_at[highest], high=self.high[highest],
            last_at=self.last_at[ends], last=self.last[ends],
        )  # fmt: skip

    def points(self) -> Points:
        """All that is kept, each point once, in order."""
        steps = np.stack([self.low_at, self.high_at, self.last_at], axis=1)
        order = np.argsort(steps, axis=1)
        steps = np.take_along_axis(steps, order, axis=1).ravel()
        values = np.take_along_axis(np.stack([self.low, self.high, self.last], axis=1), order, axis=1).ravel()
        return Points(steps=steps, values=values).where(_changes(steps))


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Several metrics end to end, as if they were one: to thin them in one go takes as long as to thin one of them.

    Each has whole buckets to itself, so that none reaches into the next.
    """

    keys: Sequence[str]
    begin: int
    """The step at which the first bucket of each begins."""
    span: int
    """Steps that each takes up: as many buckets for all."""

    @classmethod
    def of(cls, keys: Sequence[str], first: int, last: int, width: int) -> Self:
        """For metrics with points from step `first` to `last` at most, in buckets of `width`."""
        begin = first // width * width
        return cls(keys=keys, begin=begin, span=(last // width + 1) * width - begin)

    def shifts(self) -> dict[str, int]:
        """How far behind its step a point of each metric lies on the line."""
        return {key: number * self.span - self.begin for number, key in enumerate(self.keys)}

    def lay(self, parts: Mapping[str, Points]) -> Points:
        """Points of each metric, put on the line."""
        shifts = self.shifts()
        laid = [Points(steps=parts[key].steps + shifts[key], values=parts[key].values) for key in self.keys]
        return Points.join(laid)

    def take_up(self, points: Points) -> dict[str, Points]:
        """What of points on the line is whose, at the steps where it was."""
        ends = np.searchsorted(points.steps, np.arange(1, len(self.keys)) * self.span)
        parts = zip(self.shifts().items(), np.split(points.steps, ends), np.split(points.values, ends), strict=True)
        return {key: Points(steps=steps - shift, values=values) for (key, shift), steps, values in parts}


def bucket_width(first: int, last: int, max_points: int) -> int:
    """The smallest width with which `first` to `last` give at most `max_points` points, three a bucket."""
    most = max(1, max_points // 3)
    width = 1
    while last // width - first // width + 1 > most:
        width *= 2
    return width


def first_of_each(points: Points, width: int) -> Points:
    """The first point of each bucket."""
    return points.where(_changes(points.steps // width))


def thin(points: Points, width: int) -> Points:
    """The first lowest, the first highest and the last of each bucket of finite points, in order."""
    return Extremes.of(points).widen(width).points()


def _changes(numbers: Steps) -> npt.NDArray[np.bool_]:
    """Where a number differs from the one before it; True at the first."""
    changed = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=changed[1:])
    return changed


def _first_best(best: Any, values: Values, begins: Steps) -> Steps:
    """In each group, the place of the first value that none surpasses."""
    sizes = np.empty_like(begins)
    np.subtract(begins[1:], begins[:-1], out=sizes[:-1])
    sizes[-1] = len(values) - begins[-1]
    places = np.flatnonzero(values == np.repeat(best.reduceat(values, begins), sizes))
    return places[np.searchsorted(places, begins)]
