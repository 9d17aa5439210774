"""Threads that do pieces of work in order, and the events that tell when each has ended.

Each uses one core at most: a second intra-op thread would be taken from the products, and a team of two waits for its
slower half. Nothing spins: threads sleep on a queue, waiters on a lock.
"""

import queue
import threading
from collections.abc import Callable

import torch

from horizon_app.engine.errors import EngineError, TransferFailed


class HostEvent:
    """Set when a piece of work on a mover has ended, well or not."""

    __slots__ = ("_flag", "failure")

    def __init__(self, *, reached: bool = False) -> None:
        self._flag = threading.Event()
        self.failure: BaseException | None = None
        if reached:
            self._flag.set()

    def done(self) -> bool:
        """Whether the work has ended."""
        return self._flag.is_set()

    def wait(self) -> None:
        """Block until the work has ended. Raises TransferFailed where it failed, or the EngineError that it met."""
        self._flag.wait()
        raise_failure(self.failure)

    def reach(self, failure: BaseException | None = None) -> None:
        """Mark the work as ended."""
        self.failure = failure
        self._flag.set()


REACHED = HostEvent(reached=True)


def raise_failure(failure: BaseException | None) -> None:
    """Raise what a mover met, if anything: errors of the engine as they are, others as TransferFailed."""
    if isinstance(failure, EngineError):
        raise failure
    if failure is not None:
        raise TransferFailed(f"a copy failed: {failure}") from failure


class Mover:
    """A thread that does pieces of work in the order given."""

    def __init__(self, name: str, *, threads: int = 1) -> None:
        """`threads` is the number of intra-op threads that its work may use."""
        self._work: queue.SimpleQueue[tuple[Callable[[], object], HostEvent] | None] = queue.SimpleQueue()
        self._threads = threads
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._failure: BaseException | None = None
        outside = torch.get_num_threads()
        self._thread.start()
        self.submit(lambda: None).wait()
        # torch keeps the last number that any thread set as the default of threads to come: put it back.
        torch.set_num_threads(outside)

    def wait_idle(self) -> None:
        """Block until all work queued so far has ended. Raises what any of it ever failed with."""
        self.submit(lambda: None).wait()
        raise_failure(self._failure)

    def submit(self, work: Callable[[], object]) -> HostEvent:
        """Queue a piece of work; the event is reached when it has ended."""
        event = HostEvent()
        self._work.put((work, event))
        return event

    def close(self) -> None:
        """End the thread after the work that is queued."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        torch.get_num_threads()  # a thread's first look sets its number to the default; only then can it be changed
        torch.set_num_threads(self._threads)
        while (item := self._work.get()) is not None:
            work, event = item
            try:
                work()
            except Exception as failure:  # noqa: BLE001 - handed to whoever waits for the event, with its trace
                self._failure = self._failure or failure  # also where nobody waits for the event
                event.reach(failure)
            else:
                event.reach()
