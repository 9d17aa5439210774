"""The CPU backend: the arena lies in RAM, and copies run on threads behind the same kind of events as on a GPU.

Two mover threads, one each way. Each uses one core at most: a second intra-op thread would be taken from the products,
and a team of two waits for its slower half. Nothing spins: threads sleep on a queue, waiters on a lock.
"""

import queue
import threading
from collections.abc import Callable

import torch

from horizon_app.engine.errors import TransferFailed
from horizon_app.engine.streaming.backends.protocol import Event


class CpuEvent:
    """Set when a piece of work on a mover thread has ended, well or not."""

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
        """Block until the work has ended. Raises TransferFailed where it failed."""
        self._flag.wait()
        if self.failure is not None:
            raise TransferFailed(f"a copy failed: {self.failure}") from self.failure

    def reach(self, failure: BaseException | None = None) -> None:
        """Mark the work as ended."""
        self.failure = failure
        self._flag.set()


REACHED = CpuEvent(reached=True)


class Mover:
    """A thread that does pieces of work in the order given."""

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], object], CpuEvent] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._failure: BaseException | None = None
        threads = torch.get_num_threads()
        self._thread.start()
        self.submit(lambda: None).wait()
        # torch keeps the last number that any thread set as the default of threads to come: put it back.
        torch.set_num_threads(threads)

    def wait_idle(self) -> None:
        """Block until all work queued so far has ended. Raises TransferFailed where any ever failed."""
        self.submit(lambda: None).wait()
        if self._failure is not None:
            raise TransferFailed(f"a copy failed: {self._failure}") from self._failure

    def submit(self, work: Callable[[], object]) -> CpuEvent:
        """Queue a piece of work; the event is reached when it has ended."""
        event = CpuEvent()
        self._work.put((work, event))
        return event

    def close(self) -> None:
        """End the thread after the work that is queued."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        torch.get_num_threads()  # a thread's first look sets its number to the default; only then can it be changed
        torch.set_num_threads(1)
        while (item := self._work.get()) is not None:
            work, event = item
            try:
                work()
            except Exception as failure:  # noqa: BLE001 - handed to whoever waits for the event, with its trace
                self._failure = self._failure or failure  # also where nobody waits for the event
                event.reach(failure)
            else:
                event.reach()


class CpuBackend:
    """Slots in RAM, copies on threads."""

    pins_host_memory = False

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self._in = Mover("horizon-copy-in")
        self._out = Mover("horizon-gather-out")

    def new_arena(self, num_slots: int, block_numel: int, dtype: torch.dtype) -> torch.Tensor:
        """Memory of the arena, touched once."""
        return torch.zeros(num_slots, block_numel, dtype=dtype)

    def copy_in(self, target: torch.Tensor, source: torch.Tensor, after: Event) -> Event:
        """Queue the copy on the inward mover; compute is synchronous here, so `after` is reached when it is made."""
        after.wait()
        return self._in.submit(lambda: target.copy_(source))

    def gather_out(self, source: torch.Tensor, target: torch.Tensor, *, add: bool) -> Event:
        """Queue the addition on the outward mover."""
        return self._out.submit(lambda: accumulate(source, target, add=add))

    def after_gathers(self, work: Callable[[], None]) -> Event:
        """Queue `work` behind the gathers."""
        return self._out.submit(work)

    def compute_event(self) -> Event:
        """Compute is synchronous: always reached."""
        return REACHED

    def synchronize(self) -> None:
        """Wait for both movers to be idle. Raises TransferFailed where work failed."""
        for mover in (self._in, self._out):
            mover.wait_idle()

    def close(self) -> None:
        """End both movers."""
        self._in.close()
        self._out.close()


def accumulate(source: torch.Tensor, target: torch.Tensor, *, add: bool) -> None:
    """Target += source, or target = source, with the cast to fp32 in the same pass."""
    if add:
        target.add_(source)
    else:
        target.copy_(source)
