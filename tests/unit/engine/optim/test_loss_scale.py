"""The loss scale under made-up overflows, with a twin that names what it must be."""

import dataclasses
import math
from typing import Any

import pytest

from horizon_app.engine.errors import EngineError, LossScaleExhausted, NonFiniteGradient
from horizon_app.engine.optim.loss_scale import (
    FIRST_SCALE,
    GROWTH_INTERVAL,
    LARGEST_SCALE,
    MOST_SKIPS,
    LossScale,
    Overflow,
)

OVERFLOW = Overflow(step=3, stage="L1", loss=2.5)


def settled(**changes: Any) -> LossScale:
    """A dynamic scale after its first clean step, with parts of its state set."""
    scale = LossScale.dynamic()
    scale.succeeded()
    scale.load(dataclasses.replace(scale.state(), **changes))
    return scale


def test_dynamic_scale_overflow_before_any_success_is_a_probe_that_quarters() -> None:
    scale = LossScale.dynamic()
    assert scale.scale == FIRST_SCALE
    scale.overflowed(OVERFLOW)
    scale.overflowed(OVERFLOW)
    assert (scale.scale, scale.probes, scale.skipped) == (FIRST_SCALE / 16, 2, 0)


def test_dynamic_scale_overflow_after_a_success_is_a_skip_that_halves() -> None:
    scale = settled()
    scale.overflowed(OVERFLOW)
    assert (scale.scale, scale.probes, scale.skipped) == (FIRST_SCALE / 2, 0, 1)


def test_dynamic_scale_after_the_interval_of_clean_steps_doubles() -> None:
    scale = settled(clean_steps=GROWTH_INTERVAL - 2)
    scale.succeeded()
    assert scale.scale == FIRST_SCALE
    scale.succeeded()
    assert scale.scale == FIRST_SCALE * 2
    scale.succeeded()
    assert scale.scale == FIRST_SCALE * 2


def test_dynamic_scale_overflow_starts_the_interval_again() -> None:
    scale = settled(clean_steps=GROWTH_INTERVAL - 1)
    scale.overflowed(OVERFLOW)
    scale.succeeded()
    assert scale.scale == FIRST_SCALE / 2


def test_dynamic_scale_at_the_largest_stays_there() -> None:
    scale = settled(scale=LARGEST_SCALE, clean_steps=GROWTH_INTERVAL - 1)
    scale.succeeded()
    assert scale.scale == LARGEST_SCALE


def test_dynamic_scale_overflow_at_the_floor_ends_the_run_with_all_it_knows() -> None:
    scale = settled(scale=2.0)
    scale.overflowed(OVERFLOW)
    with pytest.raises(LossScaleExhausted, match="float16, which ends at 65504") as failure:
        scale.overflowed(OVERFLOW)
    text = str(failure.value)
    assert all(part in text for part in ("step 3", "loss scale 1,", "stage L1", "step 2", "bf16 or fp32")), text
    assert (failure.value.step, failure.value.stage, failure.value.scale) == (3, "L1", 1.0)


def test_dynamic_scale_probing_without_end_reaches_the_floor_and_ends_the_run() -> None:
    scale = LossScale.dynamic()
    probes = int(math.log(FIRST_SCALE, 4))
    for _ in range(probes):
        scale.overflowed(OVERFLOW)
    assert scale.scale == 1.0
    with pytest.raises(LossScaleExhausted, match="smallest scale"):
        scale.overflowed(OVERFLOW)


def test_dynamic_scale_too_many_overflows_in_a_row_end_the_run_above_the_floor() -> None:
    scale = settled(scale=LARGEST_SCALE)
    for _ in range(MOST_SKIPS - 1):
        scale.overflowed(OVERFLOW)
    with pytest.raises(LossScaleExhausted, match=f"{MOST_SKIPS} times in a row"):
        scale.overflowed(OVERFLOW)
    assert scale.scale > 1.0


def test_dynamic_scale_a_success_between_overflows_breaks_the_row() -> None:
    scale = settled(scale=LARGEST_SCALE, skipped_in_a_row=MOST_SKIPS - 1)
    scale.succeeded()
    scale.overflowed(OVERFLOW)
    assert scale.scale == LARGEST_SCALE / 2


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_float16_loss_that_is_not_finite_ends_the_run_at_once(loss: float) -> None:
    scale = settled()
    with pytest.raises(LossScaleExhausted, match=r"first in c06\.jsonl:4.*no scale changes.*bf16 or fp32"):
        scale.overflowed(Overflow(step=3, stage="head", loss=loss, sequences=("c06.jsonl:4",)))
    assert scale.skipped == 0


def test_fixed_scale_overflow_ends_the_run_and_advises_another_number() -> None:
    scale = LossScale.fixed(4096.0)
    scale.succeeded()
    with pytest.raises(
        LossScaleExhausted, match=r"loss scale 4096, .*loss_scale to dynamic or a smaller number, or set"
    ):
        scale.overflowed(OVERFLOW)


def test_fixed_scale_after_the_interval_stays() -> None:
    scale = LossScale.fixed(4096.0)
    for _ in range(GROWTH_INTERVAL + 1):
        scale.succeeded()
    assert scale.scale == 4096.0


def test_scale_that_is_off_is_one_and_blames_no_format() -> None:
    scale = LossScale.off()
    for _ in range(GROWTH_INTERVAL + 1):
        scale.succeeded()
    assert scale.scale == 1.0
    with pytest.raises(NonFiniteGradient, match="stage L1") as failure:
        scale.overflowed(OVERFLOW)
    assert "float16" not in str(failure.value)


def test_scale_loaded_from_a_state_goes_on_as_the_original() -> None:
    first, second = settled(scale=64.0, clean_steps=GROWTH_INTERVAL - 3, skipped_in_a_row=2), LossScale.dynamic()
    second.load(first.state())
    for _ in range(4):
        first.succeeded()
        second.succeeded()
        assert first.state() == second.state()
    first.overflowed(OVERFLOW)
    second.overflowed(OVERFLOW)
    assert first.state() == second.state()


@pytest.mark.parametrize(("scale", "kept"), [(LossScale.off(), 1.0), (LossScale.fixed(8.0), 8.0)])
def test_scale_that_does_not_move_loads_counts_but_keeps_its_value(scale: LossScale, kept: float) -> None:
    earlier = settled(scale=64.0, skipped=5)
    scale.load(earlier.state())
    assert (scale.scale, scale.skipped) == (kept, 5)


def test_exhausted_scale_is_unchanged_by_the_failed_attempt() -> None:
    scale = settled(scale=1.0)
    before = scale.state()
    with pytest.raises(EngineError):
        scale.overflowed(OVERFLOW)
    assert scale.state() == before
