import pytest
import torch

from horizon_app.engine.memory.arena import Arena

SLOTS, NUMEL = 3, 8


@pytest.fixture
def storage() -> torch.Tensor:
    return torch.zeros(SLOTS, NUMEL)


def test_arena_gives_every_slot_once_then_none(storage: torch.Tensor) -> None:
    arena = Arena(storage)
    assert sorted(slot for slot in (arena.take() for _ in range(SLOTS)) if slot is not None) == [0, 1, 2]
    assert arena.take() is None
    assert (arena.num_used, arena.num_slots) == (SLOTS, SLOTS)


def test_arena_high_water_mark_outlives_releases(storage: torch.Tensor) -> None:
    arena = Arena(storage)
    first, second = arena.take(), arena.take()
    assert first is not None and second is not None
    arena.release(first)
    arena.release(second)
    assert (arena.num_used, arena.most_used) == (0, 2)
    arena.take()
    assert (arena.num_used, arena.most_used) == (1, 2)


def test_arena_slot_that_was_given_back_can_be_taken_again(storage: torch.Tensor) -> None:
    arena = Arena(storage)
    slots = [arena.take() for _ in range(SLOTS)]
    assert slots[1] is not None
    arena.release(slots[1])
    assert arena.take() == slots[1]
    assert arena.take() is None


def test_arena_slots_do_not_share_memory(storage: torch.Tensor) -> None:
    arena = Arena(storage)
    for slot in range(SLOTS):
        arena.tensor(slot).fill_(slot + 1)
    assert storage.tolist() == [[slot + 1.0] * NUMEL for slot in range(SLOTS)]
    assert arena.slot_bytes == NUMEL * 4


def test_arena_release_hook_is_given_every_slot_at_first_and_each_freed_one(storage: torch.Tensor) -> None:
    def poison(slot: torch.Tensor) -> None:
        slot.fill_(float("nan"))

    arena = Arena(storage, poison)
    assert bool(storage.isnan().all())
    slot = arena.take()
    assert slot is not None
    storage.zero_()
    arena.release(slot)
    assert bool(storage[slot].isnan().all())
    assert int(storage.isnan().sum()) == NUMEL


def test_arena_slot_given_back_twice_is_refused(storage: torch.Tensor) -> None:
    arena = Arena(storage)
    slot = arena.take()
    assert slot is not None
    arena.release(slot)
    with pytest.raises(AssertionError):
        arena.release(slot)
