"""Every transition of the block table, legal and not."""

from collections.abc import Callable

import pytest

from horizon_app.contracts.residency import MapId
from horizon_app.engine.memory.block_table import BlockTable, DeviceGrad, DeviceWeight, Host, IllegalResidency

BLOCK = 1
SLOT = 4

Move = Callable[[BlockTable], object]

MOVES: dict[str, tuple[Move, DeviceWeight, DeviceWeight]] = {
    "begin_arrival": (lambda t: t.begin_arrival(BLOCK, SLOT), DeviceWeight.ABSENT, DeviceWeight.ARRIVING),
    "arrived": (lambda t: t.arrived(BLOCK), DeviceWeight.ARRIVING, DeviceWeight.READY),
    "begin_use": (lambda t: t.begin_use(BLOCK), DeviceWeight.READY, DeviceWeight.IN_USE),
    "end_use": (lambda t: t.end_use(BLOCK), DeviceWeight.IN_USE, DeviceWeight.READY),
    "evict": (lambda t: t.evict(BLOCK), DeviceWeight.READY, DeviceWeight.ABSENT),
}
PATH = {
    DeviceWeight.ABSENT: [],
    DeviceWeight.ARRIVING: ["begin_arrival"],
    DeviceWeight.READY: ["begin_arrival", "arrived"],
    DeviceWeight.IN_USE: ["begin_arrival", "arrived", "begin_use"],
}


def table_at(state: DeviceWeight) -> BlockTable:
    table = BlockTable(3)
    for name in PATH[state]:
        MOVES[name][0](table)
    assert table.weight(BLOCK) is state
    return table


@pytest.mark.parametrize("name", list(MOVES))
def test_block_table_legal_transition_changes_that_block_alone(name: str) -> None:
    move, before, after = MOVES[name]
    table = table_at(before)
    move(table)
    assert table.weight(BLOCK) is after
    assert table.is_on_device(BLOCK) == (after is not DeviceWeight.ABSENT)
    assert [table.weight(b) for b in (0, 2)] == [DeviceWeight.ABSENT] * 2
    assert table.slot_of == [-1, SLOT if after is not DeviceWeight.ABSENT else -1, -1]


ILLEGAL = [(name, state) for name, (_, legal, _) in MOVES.items() for state in DeviceWeight if state != legal]


@pytest.mark.parametrize(("name", "state"), ILLEGAL)
def test_block_table_illegal_transition_raises_and_changes_nothing(name: str, state: DeviceWeight) -> None:
    table = table_at(state)
    before = (table.maps(), list(table.slot_of))
    with pytest.raises(IllegalResidency, match=rf"block {BLOCK} is {state.name}"):
        MOVES[name][0](table)
    assert (table.maps(), table.slot_of) == before


def test_block_table_eviction_answers_the_slot_that_becomes_free() -> None:
    assert table_at(DeviceWeight.READY).evict(BLOCK) == SLOT


def grad_and_host(table: BlockTable) -> tuple[int, int]:
    maps = table.maps()
    return maps[MapId.DEVICE_GRAD][BLOCK], maps[MapId.HOST][BLOCK]


def test_block_table_gradient_passes_the_device_and_waits_on_the_host() -> None:
    table = BlockTable(3)
    assert grad_and_host(table) == (DeviceGrad.NONE, Host.READY)
    table.begin_gradient(BLOCK)
    assert grad_and_host(table) == (DeviceGrad.FILLING, Host.READY)
    table.gradient_leaves(BLOCK)
    assert grad_and_host(table) == (DeviceGrad.LEAVING, Host.READY)
    table.gradient_gathered(BLOCK)
    assert grad_and_host(table) == (DeviceGrad.NONE, Host.GRADIENT_PENDING)
    table.updated(BLOCK)
    assert grad_and_host(table) == (DeviceGrad.NONE, Host.READY)


def test_block_table_block_of_two_gradients_stays_on_the_device_until_both_are_gathered() -> None:
    table = BlockTable(3)
    for _ in range(2):
        table.begin_gradient(BLOCK)
        table.gradient_leaves(BLOCK)
    table.gradient_gathered(BLOCK)
    assert grad_and_host(table) == (DeviceGrad.LEAVING, Host.GRADIENT_PENDING)
    table.gradient_gathered(BLOCK)
    assert grad_and_host(table) == (DeviceGrad.NONE, Host.GRADIENT_PENDING)


def test_block_table_gradient_that_was_never_begun_may_not_leave() -> None:
    with pytest.raises(IllegalResidency, match=f"block {BLOCK}"):
        BlockTable(3).gradient_leaves(BLOCK)


def test_block_table_gradient_that_was_never_begun_may_not_be_gathered() -> None:
    with pytest.raises(IllegalResidency, match=f"block {BLOCK}"):
        BlockTable(3).gradient_gathered(BLOCK)


def test_block_table_gradient_without_a_slot_waits_on_the_host() -> None:
    table = BlockTable(3)
    table.gradient_on_host(BLOCK)
    assert grad_and_host(table) == (DeviceGrad.NONE, Host.GRADIENT_PENDING)


def test_block_table_maps_are_copies_with_a_state_a_block() -> None:
    table = table_at(DeviceWeight.READY)
    maps = table.maps()
    assert maps[MapId.DEVICE_WEIGHT] == bytes([DeviceWeight.ABSENT, DeviceWeight.READY, DeviceWeight.ABSENT])
    table.evict(BLOCK)
    assert maps[MapId.DEVICE_WEIGHT][BLOCK] == DeviceWeight.READY
