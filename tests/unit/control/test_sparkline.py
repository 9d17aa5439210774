"""The small picture of a loss curve stays small and covers the whole run."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from horizon_app.control.sparkline import MOST_POINTS, add_point, values


@given(st.integers(1, 3000))
def test_sparkline_has_at_most_32_points_evenly_over_the_run(steps: int) -> None:
    line: dict[str, Any] = {}
    for step in range(1, steps + 1):
        line = add_point(line, step, float(step))
    found = [value for value in values(line) if value is not None]
    assert 0 < len(found) <= MOST_POINTS
    assert {after - before for before, after in pairwise(found)} <= {float(line["stride"])}
    assert found[-1] > steps - line["stride"]


def test_sparkline_of_a_run_that_goes_back_forgets_the_tail() -> None:
    line: dict[str, Any] = {}
    for step in (1, 2, 3, 4, 2):
        line = add_point(line, step, float(step))
    assert values(line) == [1.0, 2.0]


def test_sparkline_keeps_gaps() -> None:
    assert values(add_point({}, 1, None)) == [None]
