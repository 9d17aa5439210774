"""Thinning keeps what the eye would miss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.store.downsample import Extremes, Points, bucket_width, first_of_each, thin

Pair = tuple[int, float]
values = st.floats(allow_nan=False, allow_infinity=False, width=32)
curves = st.lists(st.tuples(st.integers(0, 5000), values), min_size=1, max_size=300, unique_by=lambda p: p[0]).map(
    sorted
)


def points(curve: list[Pair]) -> Points:
    return Points(steps=np.array([p[0] for p in curve], np.int64), values=np.array([p[1] for p in curve]))


def pairs(found: Points) -> list[Pair]:
    return list(zip(found.steps.tolist(), found.values.tolist(), strict=True))


@given(curves, st.integers(3, 60))
def test_thin_keeps_first_extremes_and_last_of_each_bucket_and_nothing_else(curve: list[Pair], most: int) -> None:
    width = bucket_width(curve[0][0], curve[-1][0], most)
    kept = pairs(thin(points(curve), width))
    expected: set[Pair] = set()
    for bucket in {step // width for step, _ in curve}:
        inside = [point for point in curve if point[0] // width == bucket]
        expected |= {min(inside, key=lambda p: p[1]), max(inside, key=lambda p: p[1]), inside[-1]}
    assert kept == sorted(expected)
    assert len(kept) <= most


@given(curves, st.sampled_from([1, 2, 16]), st.sampled_from([1, 4, 64]))
def test_buckets_of_buckets_keep_what_buckets_of_points_keep(curve: list[Pair], narrow: int, factor: int) -> None:
    extremes = Extremes.of(points(curve)).widen(narrow).widen(narrow * factor)
    assert pairs(extremes.points()) == pairs(thin(points(curve), narrow * factor))


@pytest.mark.parametrize(
    ("first", "last", "most", "width"), [(0, 9, 30, 1), (0, 9, 27, 2), (1, 1_000_000, 1000, 4096), (7, 8, 3, 16)]
)
def test_bucket_width_is_the_narrowest_power_of_two_that_fits(first: int, last: int, most: int, width: int) -> None:
    assert bucket_width(first, last, most) == width


def test_thin_of_nothing_is_nothing() -> None:
    assert pairs(thin(points([]), 8)) == []
    assert pairs(first_of_each(points([]), 8)) == []


def test_thin_of_a_long_curve_keeps_a_single_spike() -> None:
    curve = [(step, 1.0) for step in range(1, 100_001)]
    curve[54_321] = (54_322, 99.0)
    assert (54_322, 99.0) in pairs(thin(points(curve), bucket_width(1, 100_000, 300)))


def test_first_of_each_bucket_keeps_one() -> None:
    assert pairs(first_of_each(points([(3, 1.0), (7, 2.0), (8, 3.0), (25, 4.0)]), 8)) == [(3, 1.0), (8, 3.0), (25, 4.0)]
