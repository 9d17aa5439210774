"""Thinning keeps what the eye would miss."""

from hypothesis import given
from hypothesis import strategies as st

from horizon_app.store.downsample import Point, thin

values = st.floats(allow_nan=False, allow_infinity=False, width=32)
curves = st.lists(st.tuples(st.integers(1, 5000), values), min_size=1, max_size=300, unique_by=lambda p: p[0]).map(
    sorted
)


@given(curves, st.integers(3, 60))
def test_thin_keeps_extremes_and_the_last_point_in_order_and_within_bounds(curve: list[Point], most: int) -> None:
    kept = thin(curve, first=curve[0][0], last=curve[-1][0], max_points=most)
    assert kept == sorted(set(kept)) and set(kept) <= set(curve)
    assert len(kept) <= most
    assert kept[-1] == curve[-1]
    assert min(value for _, value in kept) == min(value for _, value in curve)
    assert max(value for _, value in kept) == max(value for _, value in curve)


@given(curves, st.integers(3, 60))
def test_thin_keeps_the_extremes_of_each_bucket(curve: list[Point], most: int) -> None:
    first, last = curve[0][0], curve[-1][0]
    kept = thin(curve, first=first, last=last, max_points=most)
    width = max(1, -(-(last - first + 1) // (most // 3)))
    buckets = {(step - first) // width for step, _ in curve}
    for bucket in buckets:
        inside = [point for point in curve if (point[0] - first) // width == bucket]
        assert {min(p[1] for p in inside), max(p[1] for p in inside)} <= {
            p[1] for p in kept if (p[0] - first) // width == bucket
        }
        assert inside[-1] in kept


def test_thin_of_nothing_is_nothing() -> None:
    assert thin([], first=1, last=9, max_points=30) == []


def test_thin_of_a_long_curve_keeps_a_single_spike() -> None:
    curve = [(step, 1.0) for step in range(1, 100_001)]
    curve[54_321] = (54_322, 99.0)
    assert (54_322, 99.0) in thin(curve, first=1, last=100_000, max_points=300)
