"""The mission's rule on small numbers, its walls, and that it comes to rest."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.contracts.run_spec import AccumulationPolicy
from horizon_app.engine.errors import OutOfDeviceMemory
from horizon_app.engine.optim.accumulation import MOST_STEPS, Accumulation

SHORT, ENOUGH, ROOM = 0.1, 0.35, 0.8


def sizes(
    global_batch: int, micro_batch: int, *, keep: bool = True, adapts: bool = True, policy: str = "adaptive"
) -> Accumulation:
    return Accumulation(
        policy=AccumulationPolicy(policy), keep_global_batch=keep, global_batch=global_batch, micro_batch=micro_batch,
        adapts=adapts,
    )  # fmt: skip


def now(a: Accumulation) -> tuple[int, int, int]:
    return a.micro_batch, a.steps, a.sequences


@pytest.mark.parametrize(
    ("steps", "wanted"), [(1, 2), (2, 3), (3, 5), (4, 6), (5, 8), (6, 8), (7, 8), (8, 8), (9, 9), (30, 30)]
)
def test_short_memory_without_a_kept_batch_takes_half_as_many_steps_more_up_to_eight(steps: int, wanted: int) -> None:
    a = sizes(3 * steps, 3, keep=False)
    assert a.after_step(SHORT) is (wanted != steps)
    assert now(a) == (3, wanted, 3 * wanted)


@pytest.mark.parametrize(("steps", "wanted"), [(1, 1), (2, 1), (3, 2), (5, 4), (6, 5), (7, 5), (8, 6), (12, 10)])
def test_room_without_a_kept_batch_takes_fewer_steps(steps: int, wanted: int) -> None:
    a = sizes(3 * steps, 3, keep=False)
    assert a.after_step(ROOM) is (wanted != steps)
    assert now(a) == (3, wanted, 3 * wanted)


def test_short_memory_with_a_kept_batch_takes_smaller_micro_batches_of_the_same_sequences() -> None:
    a = sizes(48, 48)
    seen = [now(a)]
    while a.after_step(SHORT):
        seen.append(now(a))
    assert seen == [(48, 1, 48), (24, 2, 48), (16, 3, 48), (10, 5, 48), (6, 8, 48)]


def test_short_memory_with_few_sequences_always_makes_the_micro_batch_smaller() -> None:
    a = sizes(8, 2)  # 4 steps x 1.5 = 6 would still be micro-batches of 2
    assert a.after_step(SHORT)
    assert now(a) == (1, 8, 8)
    assert not a.after_step(SHORT)


def test_short_memory_never_takes_more_than_eight_steps_nor_fewer_than_there_are() -> None:
    assert not sizes(9, 2).after_step(SHORT)  # 5 steps; micro-batches of 1 would be 9
    many = sizes(64, 4)
    assert not many.after_step(SHORT)
    assert now(many) == (4, 16, 64)


def test_room_with_a_kept_batch_takes_larger_micro_batches_of_the_same_sequences() -> None:
    a = sizes(48, 6)
    seen = [now(a)]
    while a.after_step(ROOM):
        seen.append(now(a))
    assert seen == [(6, 8, 48), (8, 6, 48), (10, 5, 48), (12, 4, 48), (16, 3, 48), (24, 2, 48), (48, 1, 48)]


@pytest.mark.parametrize("share", [0.2, ENOUGH, 0.5])
def test_memory_between_the_thresholds_changes_nothing(share: float) -> None:
    a = sizes(48, 12)
    assert not a.after_step(share)
    assert now(a) == (12, 4, 48)


def test_micro_batch_that_left_too_little_is_not_tried_again() -> None:
    a = sizes(48, 12)
    assert a.after_step(ROOM)
    assert a.micro_batch == 16
    assert a.after_step(SHORT)
    assert a.micro_batch == 10
    assert [a.after_step(ROOM) for _ in range(3)] == [True, False, False]
    assert a.micro_batch == 12


def test_micro_batch_that_did_not_fit_is_not_tried_again() -> None:
    a = sizes(48, 24)
    a.out_of_memory()
    assert now(a) == (12, 4, 48)
    while a.after_step(ROOM):
        pass
    assert a.micro_batch == 16


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_sizes_under_any_threshold_come_to_rest_and_keep_the_sequences(batch: int, micro: int, fits: int) -> None:
    """A device on which micro-batches above `fits` leave too little, and any that fits leaves a lot."""
    a = sizes(batch, micro)
    changes = 0
    while a.after_step(ROOM if a.micro_batch <= fits else SHORT):
        changes += 1
        assert a.sequences == batch
        assert a.steps == math.ceil(batch / a.micro_batch)
        assert changes <= 2 * len({math.ceil(batch / steps) for steps in range(1, batch + 1)})
    at_the_wall = a.steps >= MOST_STEPS or math.ceil(batch / max(1, a.micro_batch - 1)) > MOST_STEPS
    assert a.micro_batch <= fits or at_the_wall or a.micro_batch == 1


@pytest.mark.parametrize("keep", [True, False])
def test_out_of_memory_halves_the_micro_batch_and_keeps_the_steps_sequences(keep: bool) -> None:
    a = sizes(5, 5, keep=keep)
    seen: list[tuple[int, int, int]] = []
    for _ in range(3):
        a.out_of_memory()
        seen.append(now(a))
    assert seen == [(3, 2, 5), (2, 3, 5), (1, 5, 5)]


def test_out_of_memory_with_one_sequence_says_what_to_lower() -> None:
    a = sizes(4, 1)
    with pytest.raises(OutOfDeviceMemory, match=r"micro-batches of 1 .*4 sequences.*compute\.recompute") as failure:
        a.out_of_memory()
    assert "micro_batch_size" not in str(failure.value)
    assert now(a) == (1, 4, 4)


def test_out_of_memory_under_the_fixed_policy_halves_too() -> None:
    a = sizes(8, 4, policy="fixed")
    a.out_of_memory()
    assert now(a) == (2, 4, 8)


def test_sizes_that_the_spec_names_are_never_moved() -> None:
    a = sizes(8, 4, adapts=False)
    assert not a.after_step(SHORT)
    assert not a.after_step(ROOM)
    with pytest.raises(OutOfDeviceMemory, match="micro_batch_size to auto") as failure:
        a.out_of_memory()
    assert (failure.value.micro_batch, failure.value.sequences) == (4, 8)
    assert now(a) == (4, 2, 8)


def test_fixed_policy_ignores_free_memory() -> None:
    a = sizes(8, 4, policy="fixed")
    assert not a.after_step(SHORT)
    assert not a.after_step(ROOM)
    assert now(a) == (4, 2, 8)


def test_micro_batch_above_the_global_batch_is_the_global_batch() -> None:
    assert now(sizes(3, 8)) == (3, 1, 3)
