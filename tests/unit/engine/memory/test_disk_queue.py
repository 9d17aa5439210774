"""The order of disk requests, against a plain search through all that wait."""

from hypothesis import given
from hypothesis import strategies as st

from horizon_app.engine.memory.disk_queue import DiskEvent, DiskQueue, DiskRequest

PAGES = 4
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, PAGES - 1), st.booleans(), st.integers(-2, 3)),
        st.tuples(st.just("take")),
        st.tuples(st.just("release"), st.integers(0, 9)),
    ),
    max_size=60,
)


def request(number: int, page: int, is_write: bool, due: int) -> DiskRequest:
    return DiskRequest(page, is_write, memoryview(b""), due, number, DiskEvent())


class SearchingQueue:
    """What the queue promises, said as plainly as can be: numbers of requests in order of call, with what was asked."""

    def __init__(self) -> None:
        self.asked: dict[int, tuple[int, bool, int]] = {}
        self.running: set[int] = set()

    def take(self) -> int | None:
        firsts: dict[int, int] = {}
        for number, (page, _, _) in self.asked.items():
            firsts.setdefault(page, number)
        may_run = [(self.urgency(page), number) for page, number in firsts.items() if number not in self.running]
        chosen = min(((urgency, self.asked[n][1], n) for urgency, n in may_run), default=None)
        return None if chosen is None else chosen[-1]

    def urgency(self, page: int) -> int:
        return min(due for at, _, due in self.asked.values() if at == page)


@given(steps)
def test_queue_of_any_requests_serves_as_a_search_would(steps: list[tuple[object, ...]]) -> None:
    queue, reference, taken = DiskQueue(), SearchingQueue(), list[DiskRequest]()
    for number, (what, *how) in enumerate(steps):
        if what == "put":
            page, is_write, due = how
            assert isinstance(page, int) and isinstance(is_write, bool) and isinstance(due, int)
            reference.asked[number] = (page, is_write, due)
            queue.put(request(number, page, is_write, due))
        elif what == "take":
            expected, found = reference.take(), queue.take()
            assert (None if found is None else found.number) == expected
            if found is not None:
                taken.append(found)
                reference.running.add(found.number)
        elif taken:
            (which,) = how
            assert isinstance(which, int)
            ended = taken.pop(which % len(taken))
            queue.release(ended)
            del reference.asked[ended.number]
            reference.running.discard(ended.number)


def test_queue_that_is_cleared_gives_back_what_waits_and_keeps_what_runs() -> None:
    queue = DiskQueue()
    asked = [request(0, 0, True, 0), request(1, 0, False, 0), request(2, 1, False, 0)]
    for each in asked:
        queue.put(each)
    assert queue.take() is asked[2]
    assert queue.clear() == asked[:2]
    assert queue.take() is None
    queue.release(asked[2])
    assert queue.take() is None
