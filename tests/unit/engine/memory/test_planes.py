"""The order of visits: what comes next, told in a cycle, kept to by chance."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.engine.memory.planes import DiskState, Opening, Visit, VisitOrder
from horizon_app.engine.memory.resident_plane import ResidentPlane


def order_of(*pages: int) -> VisitOrder:
    return VisitOrder([Visit(page) for page in pages])


def test_visit_order_goes_round_for_ever() -> None:
    order = order_of(0, 1, 2)
    for round_, page in itertools.product(range(3), range(3)):
        assert order.next_visit(page) == order.position == 3 * round_ + page
        order.visited(page, Opening.READ)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 40))
def test_visit_order_next_visit_equals_brute_force(pages: list[int], position: int) -> None:
    order = order_of(*pages)
    for at in range(position):
        order.visited(pages[at % len(pages)], Opening.READ)
    position = order.position  # a page alone in a row of its own is one visit, however often it is opened
    for page in range(7):
        ahead = (p for p in range(position, position + len(pages)) if pages[p % len(pages)] == page)
        assert order.next_visit(page) == next(ahead, None)
    assert order.at(position).page == pages[position % len(pages)]


def test_visit_order_visits_that_are_left_out_are_passed() -> None:
    order = order_of(0, 1, 2, 3)
    assert order.visited(2, Opening.READ) == [0, 1]
    assert order.position == 3
    assert (order.next_visit(0), order.next_visit(1), order.next_visit(2)) == (4, 5, 6)


def test_visit_order_page_opened_several_times_in_one_visit_moves_on_once() -> None:
    """A block of several segments is opened for each of them."""
    order = order_of(0, 1, 0, 1)
    for _ in range(3):
        order.visited(0, Opening.READ)
    assert order.position == 1
    order.visited(1, Opening.READ)
    order.visited(0, Opening.READ)
    assert order.position == 3


def test_visit_order_page_twice_in_a_row_is_two_visits() -> None:
    order = order_of(5, 5, 6)
    assert [_after(order, 5), _after(order, 5), _after(order, 5)] == [1, 2, 2]


def test_visit_order_page_filled_in_parts_and_read_next_stays_until_it_is_read() -> None:
    """The last layer's input: a plane that took it for read would put it on disk at once."""
    kept = [Visit(page, Opening.CHANGE, reads=False) for page in (0, 1)]
    order = VisitOrder([*kept, Visit(1), Visit(0)])
    order.visited(0, Opening.CHANGE)
    for _ in range(3):
        order.visited(1, Opening.CHANGE)
        assert (order.position, order.next_visit(1)) == (2, 2)
    for _ in range(2):
        order.visited(1, Opening.READ)
        assert order.position == 3
    order.visited(0, Opening.READ)
    order.visited(0, Opening.CHANGE)
    assert order.position == 5, "the next cycle begins with the page that ended the last one"


UPDATED_AND_READ = [
    Visit(0, Opening.FILL, reads=False), Visit(0), Visit(1, Opening.FILL, reads=False), Visit(1),
    Visit(2, Opening.FILL, reads=False), Visit(2), Visit(1), Visit(0),
]  # fmt: skip


def test_visit_order_a_thread_that_updates_ahead_does_not_carry_the_reads_along() -> None:
    """Updates of all pages are done before the first is read: its visit is still to come in this very cycle."""
    order = VisitOrder(UPDATED_AND_READ)
    for cycle in (0, 8, 16):
        for page in range(3):
            order.visited(page, Opening.FILL)
        assert [order.next_visit(page) for page in range(3)] == [cycle + 1, cycle + 3, cycle + 5]
        for page, position in ((0, 1), (1, 3), (2, 5), (1, 6), (0, 7)):
            assert next(order.coming(8)) == (cycle + position, Visit(page))
            order.visited(page, Opening.READ)


def test_visit_order_what_a_cycle_has_left_does_not_come_once_the_next_has_begun() -> None:
    """Pages at the turn were still on the device, and nobody fetched them."""
    order = VisitOrder(UPDATED_AND_READ)
    for page in range(3):
        order.visited(page, Opening.FILL)
    for page in range(3):
        order.visited(page, Opening.READ)
    assert sorted(order.visited(0, Opening.FILL)) == [0, 1]
    assert [order.next_visit(page) for page in range(3)] == [9, 10, 12]


def test_visit_order_openings_that_begin_a_cycle_later_are_not_waited_for_before() -> None:
    order = VisitOrder(UPDATED_AND_READ, from_second_cycle=frozenset({Opening.FILL}))
    assert [page.page for _, page in order.coming(7)] == [0, 1, 2, 1, 0]
    for page in (0, 1, 2, 1, 0):
        order.visited(page, Opening.READ)
    assert order.position == 8
    order.visited(0, Opening.FILL)
    assert order.next_visit(0) == 9


def _after(order: VisitOrder, page: int) -> int:
    order.visited(page, Opening.READ)
    return order.position


@pytest.mark.parametrize(("page", "opening"), [(0, Opening.CHANGE), (9, Opening.READ)])
def test_visit_order_openings_that_nobody_announced_change_nothing(page: int, opening: Opening) -> None:
    order = order_of(1, 0)
    order.visited(page, opening)
    assert order.position == 0


def test_visit_order_of_nothing_knows_no_next_visit() -> None:
    order = VisitOrder(())
    order.visited(0, Opening.READ)
    assert order.next_visit(0) is None


def test_resident_plane_pages_lie_one_behind_the_other() -> None:
    plane = ResidentPlane([0, 3, 3, 10], torch.bfloat16)
    plane.whole.copy_(torch.arange(10))
    for opening in Opening:
        with plane.opened(0, opening) as first, plane.opened(1, opening) as empty, plane.opened(2, opening) as last:
            assert (first.tolist(), empty.tolist(), last.tolist()) == ([0, 1, 2], [], [3, 4, 5, 6, 7, 8, 9])
    assert plane.num_bytes == 20
    assert plane.on_disk(2) is DiskState.IN_RAM
