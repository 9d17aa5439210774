"""The order of disk requests: by when they are needed, but never past another one on the same page."""

import heapq
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


class DiskEvent:
    """Set when a request has ended, well or not."""

    __slots__ = ("_callbacks", "_ended", "_failure", "_lock")

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._failure: Exception | None = None

    def done(self) -> bool:
        """Whether the request has ended."""
        return self._ended.is_set()

    def went_well(self) -> bool:
        """Whether the request has ended without a failure."""
        return self._ended.is_set() and self._failure is None

    def wait(self) -> None:
        """Block until the request has ended. Raises DiskCorrupt, DiskFailed, DiskFull or DiskUnusable."""
        self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def on_done(self, callback: Callable[[], object]) -> None:
        """Call back at the end, on the thread that did the request; at once where it has ended already."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def end(self, failure: Exception | None) -> None:
        """Mark the request as ended, and call back. Only the store does this, once."""
        with self._lock:
            self._failure = failure
            self._ended.set()
        for callback in self._callbacks:
            callback()
        self._callbacks.clear()  # they hold on to what they were made with


@dataclass(slots=True, eq=False)
class DiskRequest:
    """One page to be read or written. `room` is the memory of the page, up to a whole sector."""

    page: int
    is_write: bool
    room: memoryview
    due: int
    number: int
    event: DiskEvent
    taken: bool = False


class DiskQueue:
    """Waiting requests. Not safe for several threads: the store locks."""

    def __init__(self) -> None:
        self._ready: list[tuple[int, bool, int, DiskRequest]] = []  # a heap; may hold a request twice
        self._of_page: dict[int, deque[DiskRequest]] = {}  # in order of call; only the first may run

    def put(self, request: DiskRequest) -> None:
        """Add a request; whoever it has to wait for becomes as urgent as it is."""
        line = self._of_page.setdefault(request.page, deque())
        line.append(request)
        first = line[0]
        if first is request:
            self._offer(request)
        elif request.due < first.due and not first.taken:
            first.due = request.due
            self._offer(first)

    def take(self) -> DiskRequest | None:
        """The most urgent request that may run now, if any; its page is busy until `release`."""
        while self._ready:
            request = heapq.heappop(self._ready)[-1]
            if not request.taken:
                request.taken = True
                return request
        return None

    def release(self, request: DiskRequest) -> None:
        """The request has ended: the next one on its page may run."""
        line = self._of_page[request.page]
        line.popleft()
        if line:
            line[0].due = min(waiting.due for waiting in line)
            self._offer(line[0])
        else:
            del self._of_page[request.page]

    def clear(self) -> list[DiskRequest]:
        """Take out all requests that don't run."""
        waiting = [request for line in self._of_page.values() for request in line if not request.taken]
        self._of_page = {page: deque([line[0]]) for page, line in self._of_page.items() if line[0].taken}
        self._ready.clear()
        return waiting

    def _offer(self, request: DiskRequest) -> None:
        heapq.heappush(self._ready, (request.due, request.is_write, request.number, request))
