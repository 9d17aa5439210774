"""The update of the weights, stage by stage ahead of the next forward.

With clipping, an update may start only when the norm of the whole gradient is known: after the last backward. It then
runs in the order in which the next forward passes the stages, each of which waits for its own update alone. Nothing is
stale, and not a bit differs from updating everything at once.
"""

import threading
from collections import deque
from collections.abc import Sequence

from horizon_app.engine.memory.block_table import BlockTable
from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.optim.adamw import HostAdamW, Update
from horizon_app.engine.streaming.backends.mover import HostEvent, Mover


class WeightUpdates:
    """An `UpdateGate`: a stage is open once it holds the weights of this step.

    Either a thread updates beside the compute, or whoever passes the gate does it then and there: where the device is
    the CPU, a thread would only take cores from the products.
    """

    def __init__(
        self, partition: Partition, optimizer: HostAdamW, table: BlockTable, order: Sequence[int], *, threads: int
    ) -> None:
        """`order` names every stage once. `threads` work beside the compute; 0: nobody does."""
        self._partition, self._optimizer, self._table = partition, optimizer, table
        self.order = tuple(order)
        self._mover = Mover("horizon-optimizer", threads=threads) if threads else None
        self._pending: deque[int] = deque()
        self._update: Update | None = None
        self._events: dict[int, HostEvent] = {}
        self._failure: Exception | None = None
        self._released: threading.Event | None = None

    def hold(self, released: threading.Event) -> None:
        """Somebody reads masters and moments from here on; the next update waits until they are `released`.

        Everything must be flushed, so that nobody reads what a thread still changes.
        """
        self._released = released

    def begin(self, update: Update) -> None:
        """All gradients are gathered: every stage may be updated. The update before must have been passed by all."""
        self.flush()
        self._update = update
        self._pending = deque(self.order)
        if self._mover is not None:
            self._events = {stage: self._mover.submit(lambda stage=stage: self._apply(stage)) for stage in self.order}
            self._pending.clear()

    def is_open(self, stage: int) -> bool:
        """Whether the stage's weights may be read now."""
        event = self._events.get(stage)
        if event is not None:
            return event.done() and event.failure is None
        self.pass_through(stage)
        return True

    def pass_through(self, stage: int) -> None:
        """Return once the stage's weights may be read. Raises EngineError where an update failed."""
        event = self._events.get(stage)
        if event is not None:
            event.wait()
        while stage in self._pending:
            self._apply_next()

    def flush(self) -> None:
        """Return once every stage is updated. Raises EngineError where an update failed."""
        for stage in self.order:
            self.pass_through(stage)

    def close(self) -> None:
        """End the thread."""
        if self._mover is not None:
            self._mover.close()

    def _apply_next(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            self._apply(self._pending[0])
        except Exception as failure:
            self._failure = failure  # the stage is half updated: nobody may pass any more
            raise
        self._pending.popleft()

    def _apply(self, stage: int) -> None:
        if self._update is None:
            raise AssertionError("an update begins before it is applied")
        if self._released is not None:
            self._released.wait()
        for block in self._partition.stage_blocks[stage]:
            self._optimizer.update(block, self._update)
            self._table.updated(block.index)
