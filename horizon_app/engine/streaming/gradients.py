"""Takes gradients from the device to the host, off the critical path, and keeps what clipping needs of them.

Gradients are written one segment at a time into slots of the arena (at most `num_slots` of them), and leave as soon as
they are complete; a slot goes back when all that was in it has left.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from horizon_app.engine.memory.arena import Arena
from horizon_app.engine.memory.block_table import BlockTable
from horizon_app.engine.memory.geometry import Parameter, Partition, Segment
from horizon_app.engine.memory.host_pool import HostPool, rows_by_segment
from horizon_app.engine.memory.planes import Opening, PlaneName
from horizon_app.engine.streaming.backends.protocol import Backend, Event
from horizon_app.engine.streaming.streamer import Streamer

ALIGN = 16  # elements; as in the partition


@dataclass(slots=True)
class _GradientSlot:
    slot: int
    used: int = 0
    leaving: list[tuple[int, Event]] = field(default_factory=list[tuple[int, Event]])  # block, its way out


class GradientGather:
    """Writes gradients on the device and adds them on the host."""

    def __init__(
        self, *, partition: Partition, pool: HostPool, arena: Arena, table: BlockTable, backend: Backend,
        streamer: Streamer, num_slots: int, writes_host: bool = False,
    ) -> None:  # fmt: skip
        """With `writes_host`, products write a segment's first gradient into the host tier's memory itself."""
        self._partition, self._pool, self._arena, self._table = partition, pool, arena, table
        self._backend, self._streamer, self.num_slots = backend, streamer, num_slots
        self._writes_host = writes_host
        self._slots: deque[_GradientSlot] = deque()
        self._written = bytearray(len(partition.segments))  # segments whose host gradient is of this step
        self._in_place: set[int] = set()  # segments whose gradient is being written on the host
        self._squares = torch.zeros(len(partition.blocks), dtype=torch.float64)
        self.first_bad_stage: int | None = None  # where a gradient that is not finite was seen first

    def begin_optimizer_step(self) -> None:
        """Gradients of the step before no longer count."""
        self._written = bytearray(len(self._partition.segments))
        self._squares.zero_()
        self.first_bad_stage = None

    def drop(self) -> None:
        """Forget all gradients of a step that is given up; its copies are waited for."""
        self._in_place.clear()
        while self._slots:
            oldest = self._slots.popleft()
            for _, event in oldest.leaving:
                event.wait()
            self._streamer.give_slot_back(oldest.slot)
        self._backend.synchronize()
        for block in self._partition.blocks:
            self._pool.planes[PlaneName.GRAD].forget(block.index)
            self._table.gradient_dropped(block.index)

    def reserve(self, segment: Segment) -> torch.Tensor:
        """Memory for one segment's gradient. Shape: [elements of the segment]."""
        self._table.begin_gradient(segment.block)
        if self._writes_host and not self._written[segment.index]:
            target = self._pool.segment(PlaneName.GRAD, segment).in_ram()
            if target is not None:
                self._in_place.add(segment.index)
                return target
        slot = self._room_for(segment.numel)
        start, slot.used = slot.used, slot.used + segment.numel + -segment.numel % ALIGN
        return self._arena.tensor(slot.slot)[start : start + segment.numel]

    def send(self, segment: Segment, gradient: torch.Tensor) -> None:
        """The segment's gradient is computed: add it on the host."""
        if segment.index in self._in_place:
            self._in_place.remove(segment.index)
            self._written[segment.index] = 1
            self._table.gradient_gathered(segment.block)
            return
        event = self.add(segment, gradient)
        self._table.gradient_leaves(segment.block)
        self._slots[-1].leaving.append((segment.block, event))

    def add(self, segment: Segment, gradient: torch.Tensor) -> Event:
        """Add a gradient that does not lie in the arena. Shape: [elements of the segment], any dtype."""
        first = not self._written[segment.index]
        self._written[segment.index] = 1
        self._streamer.counters.bytes_out += gradient.numel() * gradient.element_size()
        return self._backend.gather_out(gradient.view(-1), self._pool.segment(PlaneName.GRAD, segment), add=not first)

    def add_parameter(self, parameter: Parameter, gradient: torch.Tensor) -> None:
        """Add a whole parameter's gradient that does not lie in the arena. Shape: the parameter's, any dtype."""
        flat = gradient.contiguous().view(-1)
        for segment in self._partition.segments_in(parameter):
            start = segment.pool_start - parameter.pool_start
            self.add(segment, flat[start : start + segment.numel])
            self._table.gradient_on_host(segment.block)

    def add_rows(self, parameter: Parameter, rows: torch.Tensor, gradient: torch.Tensor) -> None:
        """Add the gradient of some rows of an embedding.

        Shapes: rows [R] int64, sorted; gradient [R, width], any dtype; both on the host.
        """
        segments = self._partition.segments_in(parameter)
        fresh = {segment.index for segment in segments if not self._written[segment.index]}
        for segment in segments:
            self._written[segment.index] = 1
            self._table.gradient_on_host(segment.block)
        parts = dict(_by_segment(self._partition, parameter, rows))

        def work() -> None:
            for segment in segments:
                inside = parts.get(segment.index)
                if segment.index not in fresh and inside is None:
                    continue
                with self._pool.segment(PlaneName.GRAD, segment).opened(Opening.CHANGE) as target:
                    if segment.index in fresh:
                        target.zero_()
                    if inside is not None:
                        table = target.view(-1, parameter.shape[1])
                        table.index_add_(0, rows[inside] - segment.row_start, gradient[inside].to(target.dtype))

        self._backend.after_gathers(work)

    def norm_when_gathered(self, stage: int) -> None:
        """Take the stage's squared norm on the gathering thread, once its gradients are complete."""
        blocks = self._partition.stage_blocks[stage]

        def work() -> None:
            for block in blocks:
                with self._pool.block(PlaneName.GRAD, block).opened(Opening.READ) as gradient:
                    norm = torch.linalg.vector_norm(gradient)
                self._squares[block.index] = norm.double() ** 2
                if self.first_bad_stage is None and not bool(torch.isfinite(norm)):
                    self.first_bad_stage = stage

        self._backend.after_gathers(work)

    def finish(self) -> torch.Tensor:
        """Wait until all gradients are on the host. Answers the squared norm of each block, fp64 [blocks]."""
        while self._slots:
            self._drain_oldest()
        self._backend.synchronize()
        return self._squares

    def poll(self) -> None:
        """Let the table know of gradients that have arrived, and give emptied slots back, without waiting."""
        for slot in self._slots:
            self._forget_arrived(slot)

    def _room_for(self, numel: int) -> _GradientSlot:
        if self._slots and self._slots[-1].used + numel <= self._partition.block_numel:
            return self._slots[-1]
        if len(self._slots) >= self.num_slots:
            self._drain_oldest()
        slot, after = self._streamer.take_slot()
        after.wait()
        self._slots.append(_GradientSlot(slot))
        return self._slots[-1]

    def _drain_oldest(self) -> None:
        oldest = self._slots.popleft()
        for block, event in oldest.leaving:
            event.wait()
            self._table.gradient_gathered(block)
        self._streamer.give_slot_back(oldest.slot)

    def _forget_arrived(self, slot: _GradientSlot) -> None:
        while slot.leaving and slot.leaving[0][1].done():
            block, event = slot.leaving.pop(0)
            event.wait()
            self._table.gradient_gathered(block)


def _by_segment(partition: Partition, parameter: Parameter, rows: torch.Tensor) -> Iterator[tuple[int, slice]]:
    for segment, inside in rows_by_segment(partition, parameter, rows):
        yield segment.index, inside
