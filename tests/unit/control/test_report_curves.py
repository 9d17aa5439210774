"""Charts of reports: where lines and labels lie, and what gaps and flat lines become."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.control.reports.curves import Line, Mark, draw, nice_ticks
from horizon_app.control.reports.smoothing import smoothed
from horizon_app.control.reports.units import Unit, duration, number


def line(*points: tuple[float, float | None], slot: int = 1, faint: bool = False) -> Line:
    return Line(label="a", slot=slot, points=points, faint=faint)


def test_line_runs_from_the_lower_left_to_the_upper_right_of_its_ticks() -> None:
    chart = draw("t", [line((0, 0), (10, 10))])
    assert chart is not None
    assert chart.paths[0].d == "M0.0 1000.0L0.0 1000.0L1000.0 0.0"
    assert [(tick.at, tick.text) for tick in chart.y_ticks][:: len(chart.y_ticks) - 1] == [(0.0, "0"), (100.0, "10")]
    assert chart.legend[0].last == "10"


def test_value_that_was_not_finite_is_a_gap_and_a_point_alone_a_dot() -> None:
    chart = draw("t", [line((0, 0), (1, None), (2, 1), (3, None), (4, 0))])
    assert chart is not None
    assert chart.paths[0].d.count("M") == 3
    assert draw("t", [line((0, None))]) is None


def test_flat_line_and_a_single_point_have_an_axis_around_them() -> None:
    for points in ([(5.0, 3.0)], [(0.0, 0.0), (1.0, 0.0)]):
        chart = draw("t", [Line(label="a", slot=1, points=points)])
        assert chart is not None
        assert "nan" not in chart.paths[0].d
        assert len(chart.y_ticks) >= 2


def test_share_never_leaves_its_bounds_and_bytes_have_round_ticks() -> None:
    share = draw("t", [line((0, 0.97), (1, 0.97))], unit=Unit.SHARE)
    size = draw("t", [line((0, 0), (1, 9.6e9))], unit=Unit.BYTES)
    assert share is not None and size is not None
    assert share.y_ticks[-1].text == "100%"
    assert [tick.text for tick in size.y_ticks] == ["0 GiB", "2 GiB", "4 GiB", "6 GiB", "8 GiB", "10 GiB"]


def test_mark_outside_the_measured_steps_is_left_out() -> None:
    marks = [Mark(x=5, label="1", kind="knob"), Mark(x=50, label="2", kind="knob")]
    chart = draw("t", [line((0, 0), (10, 1))], marks=marks)
    assert chart is not None
    assert [(mark.at, mark.text) for mark in chart.marks] == [(50.0, "1")]


def test_legend_of_a_smoothed_line_has_the_measured_value() -> None:
    chart = draw("t", [line((0, 0), (1, 8), faint=True), line((0, 0), (1, 4))])
    assert chart is not None
    assert [entry.last for entry in chart.legend] == ["8"]


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_ticks_enclose_the_values_and_are_few(low: float, width: float) -> None:
    high = low + width
    if (high - low) < max(abs(low), abs(high)) * 1e-9:
        return
    ticks = nice_ticks(low, high, 5)
    slack = width * 1e-6
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 9
    assert all(math.isfinite(tick) for tick in ticks)


def test_moving_average_of_a_constant_is_the_constant_from_the_first_point_on() -> None:
    found = smoothed([(step, 3.0) for step in range(1, 5001)], 5000)
    assert all(value == pytest.approx(3.0) for _, value in found)
    assert len(found) <= 450
    assert found[-1][0] == 5000


def test_moving_average_leaves_out_what_was_not_finite() -> None:
    assert smoothed([(1, None), (2, 5.0), (3, None)], 3) == [(2.0, 5.0)]
    assert smoothed([], 0) == []


def test_numbers_and_durations_are_short() -> None:
    assert [number(value) for value in (None, 0.0, 2e-5, 0.1234567, 1234.5, 1.5e12)] == [
        "–", "0", "2e-5", "0.1235", "1,234", "1.5e12",
    ]  # fmt: skip
    assert [duration(value) for value in (None, 4.21, 75, 3725)] == ["–", "4.2 s", "1 min 15 s", "1 h 02 min"]
