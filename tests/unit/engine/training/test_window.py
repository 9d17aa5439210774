"""The window that adjusts itself."""

import pytest

from horizon_app.engine.training.window import QUIET_STEPS, STALLED_SHARE, WIDEST, AutoWindow


def stalled(window: AutoWindow) -> int:
    return window.after_step(stall_s=2 * STALLED_SHARE, seconds=1.0, late=1, misses=0)


def quiet(window: AutoWindow, steps: int = 1) -> int:
    for _ in range(steps):
        window.after_step(stall_s=0.5 * STALLED_SHARE, seconds=1.0, late=1, misses=1)
    return window.window


def test_auto_window_widens_with_every_step_that_waits_until_it_is_widest() -> None:
    window = AutoWindow(3)
    assert [stalled(window) for _ in range(7)] == [4, 5, 6, 7, WIDEST, WIDEST, WIDEST]


def test_auto_window_narrows_one_by_one_while_nothing_waits() -> None:
    window = AutoWindow(3)
    assert quiet(window, QUIET_STEPS - 1) == 3
    assert quiet(window) == 2
    assert quiet(window, QUIET_STEPS) == 1
    assert quiet(window, 5 * QUIET_STEPS) == 1, "there is no prefetch without a window"


def test_auto_window_that_stalled_is_not_tried_again() -> None:
    window = AutoWindow(3)
    stalled(window)
    stalled(window)
    assert quiet(window, 20 * QUIET_STEPS) == 5, "4 has stalled"


def test_auto_window_step_that_waits_starts_the_quiet_time_anew() -> None:
    window = AutoWindow(8)
    quiet(window, QUIET_STEPS - 1)
    stalled(window)
    assert quiet(window, QUIET_STEPS - 1) == WIDEST


@pytest.mark.parametrize(("late", "misses", "widens"), [(0, 0, False), (1, 0, True), (0, 1, True)])
def test_auto_window_waiting_that_no_window_cures_does_not_widen_it(late: int, misses: int, widens: bool) -> None:
    """Copies that are made at once take time, though every block was there."""
    window = AutoWindow(3)
    assert window.after_step(stall_s=0.9, seconds=1.0, late=late, misses=misses) == (4 if widens else 3)
