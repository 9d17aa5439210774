import math

import pytest

from horizon_app.contracts.run_spec import LrSchedule
from horizon_app.engine.optim.lr_schedule import LearningRate

PEAK, TOTAL = 2e-4, 100


def rate(schedule: LrSchedule, warmup: float, total: int = TOTAL) -> LearningRate:
    return LearningRate(peak=PEAK, schedule=schedule, warmup=warmup, total_steps=total)


@pytest.mark.parametrize("schedule", list(LrSchedule))
def test_learning_rate_warmup_rises_linearly_and_ends_at_the_peak(schedule: LrSchedule) -> None:
    learning_rate = rate(schedule, 10)
    assert [learning_rate.at(step) for step in range(1, 11)] == pytest.approx([PEAK * k / 10 for k in range(1, 11)])
    assert learning_rate.at(11) == pytest.approx(PEAK), "the step after the warm-up is the first of the schedule"


@pytest.mark.parametrize("schedule", list(LrSchedule))
def test_learning_rate_without_warmup_starts_at_the_peak(schedule: LrSchedule) -> None:
    assert rate(schedule, 0).at(1) == PEAK


@pytest.mark.parametrize(("warmup", "steps"), [(0, 0), (1, 1), (7, 7), (0.25, 25), (0.5, 50), (0.005, 1), (0.07, 7)])
def test_learning_rate_warmup_below_one_is_a_share_of_all_steps(warmup: float, steps: int) -> None:
    assert rate(LrSchedule.CONSTANT, warmup).warmup_steps == steps


def test_learning_rate_constant_stays() -> None:
    assert {rate(LrSchedule.CONSTANT, 10).at(step) for step in range(11, TOTAL + 1)} == {PEAK}


def test_learning_rate_linear_falls_by_the_same_amount_each_step() -> None:
    learning_rate = rate(LrSchedule.LINEAR, 20)
    falling = [learning_rate.at(step) for step in range(21, TOTAL + 1)]
    assert falling == pytest.approx([PEAK * (1 - k / 80) for k in range(80)])
    assert learning_rate.at(TOTAL + 1) == pytest.approx(0.0)


def test_learning_rate_cosine_falls_along_half_a_wave() -> None:
    learning_rate = rate(LrSchedule.COSINE, 20)
    expected = [PEAK * 0.5 * (1 + math.cos(math.pi * k / 80)) for k in range(80)]
    assert [learning_rate.at(step) for step in range(21, TOTAL + 1)] == pytest.approx(expected)
    assert learning_rate.at(61) == pytest.approx(PEAK / 2)
    assert learning_rate.at(TOTAL + 1) == pytest.approx(0.0)


@pytest.mark.parametrize("schedule", list(LrSchedule))
@pytest.mark.parametrize("warmup", [0, 3, 5, 50])
def test_learning_rate_every_step_of_a_short_run_is_between_zero_and_the_peak(
    schedule: LrSchedule, warmup: float
) -> None:
    rates = [rate(schedule, warmup, total=5).at(step) for step in range(1, 6)]
    assert all(0.0 < value <= PEAK for value in rates)
