"""Room for checkpoints, in numbers."""

from typing import Any

import pytest

from horizon_app.contracts.run_spec import RunSpec
from horizon_app.planning.checkpoint_room import SPARE_BYTES, check, checkpoint_bytes, most_at_once

MILLION = 1_000_000


def spec(**sections: Any) -> RunSpec:
    return RunSpec.model_validate({"model": {"path": "m"}, "data": {"path": "d"}, **sections})


def test_checkpoint_holds_masters_two_moments_and_the_average_in_fp32() -> None:
    assert checkpoint_bytes(spec(), MILLION) == 12 * MILLION
    assert checkpoint_bytes(spec(training={"gradient_ema": 0.9}), MILLION) == 16 * MILLION
    assert checkpoint_bytes(spec(precision={"optimizer_state": "int8"}), MILLION) == 12 * MILLION


@pytest.mark.parametrize(
    ("every", "keep", "steps", "at_once"),
    [(100, 3, 1000, 4), (100, 3, 200, 2), (100, 3, 201, 3), (100, 3, None, 4), (0, 3, 1000, 1), (1, 1, 5, 2)],
)
def test_newest_lies_beside_those_that_are_kept(every: int, keep: int, steps: int | None, at_once: int) -> None:
    assert most_at_once(spec(checkpoint={"every": every, "keep": keep}, training={"optimizer_steps": steps})) == at_once


def test_disk_with_room_is_no_problem_to_the_byte() -> None:
    need = 48 * MILLION + SPARE_BYTES
    assert check(spec(), MILLION, at_once=4, folder="/runs", free_bytes=need) == []
    (problem,) = check(spec(), MILLION, at_once=4, folder="/runs", free_bytes=need - 1)
    assert problem.field == "checkpoint.keep"
    assert problem.message == (
        "4 checkpoints at once need 52,194,304 bytes (1,000,000 parameters, 12,000,000 bytes each time), but /runs has "
        "52,194,303 bytes free"
    )
    assert problem.fix == "set it to 2, or free 1 bytes there"


def test_disk_without_room_for_one_says_what_to_free() -> None:
    (problem,) = check(spec(), MILLION, at_once=1, folder="/runs", free_bytes=0)
    assert (problem.field, problem.message[:20]) == ("checkpoint", "a checkpoint needs 1")
    assert problem.fix == "free 16,194,304 bytes there, or choose a home folder on another disk"
