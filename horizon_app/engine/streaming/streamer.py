"""Brings blocks to the device: on demand when a product asks, ahead of time as the schedule tells.

All decisions are taken on the training thread; movers only copy. Numbers never depend on when a copy ends, since a
product waits for exactly the copy of the block that it reads.
"""

import time
from collections.abc import Callable
from typing import Protocol

import torch

from horizon_app.engine.memory.arena import Arena
from horizon_app.engine.memory.block_table import SHARED, BlockTable, DeviceWeight
from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import PlaneName
from horizon_app.engine.policy.protocol import ReplacementPolicy
from horizon_app.engine.streaming.backends.protocol import Backend, Event
from horizon_app.engine.streaming.schedule import ComputeStep, Schedule
from horizon_app.engine.telemetry.counters import Counters

NOTHING = -1
EMPTY = Schedule(steps=(), accesses=())


class UpdateGate(Protocol):
    """Knows which stages have the weights of this optimizer step already."""

    def is_open(self, stage: int) -> bool:
        """Whether the stage's weights may be read now; never waits."""
        ...

    def pass_through(self, stage: int) -> None:
        """Return once the stage's weights may be read. Raises EngineError where their update failed."""
        ...


class OpenGate:
    """All weights are as they should be."""

    def is_open(self, stage: int) -> bool:
        """Always."""
        return True

    def pass_through(self, stage: int) -> None:
        """At once."""


class Streamer:
    """The device tier of one engine: the arena, what is in it, and what comes next."""

    def __init__(  # noqa: PLR0913 - the parts that it joins
        self, *, partition: Partition, pool: HostPool, arena: Arena, table: BlockTable, backend: Backend,
        policy: ReplacementPolicy, window: int, counters: Counters, shares_host: bool = False,
        gate: UpdateGate | None = None, on_access: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """With `shares_host`, products read weights from the host tier's memory, and the arena holds gradients only."""
        self._partition, self._pool, self._arena, self._table = partition, pool, arena, table
        self._backend, self._policy, self._shares_host = backend, policy, shares_host
        self.window, self.counters, self._on_access = window, counters, on_access
        self.gate: UpdateGate = gate or OpenGate()
        self._arrivals: dict[int, Event] = {}
        self._slot_read: dict[int, Event] = {}  # last compute that read a slot: its next copy comes after it
        self._current = NOTHING
        self._schedule = EMPTY
        self._step_index = 0
        self._position = 0  # of the next access
        self._cursor = 0  # of the next access that prefetch has not looked at
        self._blocked_at: int | None = None  # prefetch found no victim for this position

    # -- the life of an optimizer step

    def begin_optimizer_step(self, schedule: Schedule) -> None:
        """Start on a new schedule, and on bringing in what it asks for first."""
        self._schedule, self._step_index = schedule, 0
        self._position = self._cursor = 0
        self._blocked_at = None
        self._policy.horizon(0, self._window_end())
        self._prefetch(self._window_end())

    def invalidate(self) -> None:
        """Forget what is on the device: the weights on the host are about to change."""
        self.release_current()
        self._settle(wait=True)
        for block in range(self._table.num_blocks):
            if self._table.is_on_device(block):
                self._evict(block)
        self._schedule = EMPTY

    def use_policy(self, policy: ReplacementPolicy) -> None:
        """Choose victims by another policy from now on; nothing may be on the device."""
        self._policy = policy

    def resize(self, num_slots: int, block_numel: int, dtype: torch.dtype) -> None:
        """Go on with an arena of another size; nothing may be on the device."""
        self._slot_read.clear()
        self._arena.empty()
        self._arena.refill(self._backend.new_arena(num_slots, block_numel, dtype))
        self._policy.resized(num_slots)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the optimizer step that runs now."""
        return self._schedule

    def begin_compute_step(self, index: int) -> ComputeStep:
        """Step on in the schedule. Answers what it will ask for."""
        self._step_index = index
        step = self._schedule.steps[index]
        self._position = step.start
        self._cursor = max(self._cursor, self._position)
        self._blocked_at = None
        self._policy.horizon(self._position, self._window_end())
        self._prefetch(self._window_end())
        return step

    @property
    def step_index(self) -> int:
        """The compute step that runs now."""
        return self._step_index

    # -- accesses

    def access(self, block: int) -> torch.Tensor:
        """The block's weights on the device, flat; they stay until the next access. Shape: [elements of a block]."""
        if block == self._current:
            return self._content(block)
        self.release_current()
        self._count(block)
        self._settle_block(block)
        self._table.begin_use(block)
        self._current = block
        self._advance(block)
        self._prefetch(self._window_end())
        self._on_access()
        return self._content(block)

    def _content(self, block: int) -> torch.Tensor:
        slot = self._table.slot_of[block]
        if slot != SHARED:
            return self._arena.tensor(slot)
        content = self._pool.block(PlaneName.WEIGHT, self._partition.blocks[block]).in_ram()
        if content is None:
            raise AssertionError("only weights that are in RAM are shared")
        return content

    def release_current(self) -> None:
        """No product reads the current block any more."""
        if self._current == NOTHING:
            return
        block, self._current = self._current, NOTHING
        if self._table.slot_of[block] != SHARED:
            self._slot_read[self._table.slot_of[block]] = self._backend.compute_event()
        self._table.end_use(block)
        if self._blocked_at is not None and self._schedule.next_use(block, self._position) > self._blocked_at:
            self._blocked_at = None

    def take_slot(self) -> tuple[int, Event]:
        """A slot for something that is not a block's weights, evicting a block if need be; and what to wait for."""
        slot = self._slot_on_demand()
        return slot, self._slot_read.pop(slot, self._backend.compute_event())

    def give_slot_back(self, slot: int) -> None:
        """The reverse of `take_slot`."""
        self._arena.release(slot)
        self._blocked_at = None

    def poll_arrivals(self) -> None:
        """Let the table know of copies that have ended, for whoever looks at it."""
        self._settle(wait=False)

    # -- inside

    def _count(self, block: int) -> None:
        counters = self.counters
        counters.accesses += 1
        state = self._table.weight(block)
        if state is DeviceWeight.ABSENT:
            self.gate.pass_through(self._partition.blocks[block].stage)
        if state is DeviceWeight.ABSENT and self._shares_host:
            self._share(block)
            counters.hits += 1
        elif state is DeviceWeight.ABSENT:
            counters.misses += 1
            self._begin_arrival(block, self._slot_on_demand(), self._position)
        elif state is DeviceWeight.ARRIVING and not self._arrivals[block].done():
            counters.late += 1
        else:
            counters.hits += 1

    def _settle_block(self, block: int) -> None:
        event = self._arrivals.pop(block, None)
        if event is None:
            return
        begin = time.perf_counter()
        event.wait()
        self.counters.stall_s += time.perf_counter() - begin
        self._table.arrived(block)

    def _settle(self, *, wait: bool) -> None:
        for block, event in list(self._arrivals.items()):
            if wait or event.done():
                del self._arrivals[block]
                event.wait()
                self._table.arrived(block)

    def _advance(self, block: int) -> None:
        accesses, end = self._schedule.accesses, self._schedule.steps[self._step_index].end
        position = self._position
        while position < end and accesses[position] != block:
            position += 1
        if position < end:  # else an access that the schedule did not foresee: stay where we are
            self._position = position + 1
        if not self._shares_host:
            self._policy.used(block, self._schedule.next_use(block, self._position))

    def _window_end(self) -> int:
        if self.window == 0 or not self._schedule.steps:
            return 0
        last = min(self._step_index + self.window, len(self._schedule.steps) - 1)
        return self._schedule.steps[last].end

    def _prefetch(self, limit: int) -> None:
        if self._blocked_at is not None:
            return
        accesses = self._schedule.accesses
        cursor = max(self._cursor, self._position)
        while cursor < limit:
            block = accesses[cursor]
            if not self._table.is_on_device(block):
                if not self.gate.is_open(self._partition.blocks[block].stage):
                    break
                if self._shares_host:
                    self._share(block)
                    cursor += 1
                    continue
                slot = self._slot_for_prefetch(cursor)
                if slot is None:
                    self._blocked_at = cursor
                    break
                self._begin_arrival(block, slot, cursor)
            cursor += 1
        self._cursor = cursor

    def _slot_for_prefetch(self, position: int) -> int | None:
        slot = self._arena.take()
        if slot is not None:
            return slot
        victim = self._policy.victim(
            lambda b: (
                self._table.weight(b) is DeviceWeight.READY and self._schedule.next_use(b, self._position) > position
            )
        )
        if victim is None:
            return None
        self._evict(victim)
        return self._arena.take()

    def _slot_on_demand(self) -> int:
        slot = self._arena.take()
        if slot is None:
            victim = self._policy.victim(lambda b: self._table.weight(b) is DeviceWeight.READY)
            if victim is None:  # everything is on its way in: the copies end by themselves
                self._settle(wait=True)
                victim = self._policy.victim(lambda b: self._table.weight(b) is DeviceWeight.READY)
            if victim is None:
                raise AssertionError("an arena of legal size always has a block that may leave")
            self._evict(victim)
            self._cursor = min(self._cursor, self._schedule.next_use(victim, self._position))
            slot = self._arena.take()
        if slot is None:
            raise AssertionError("a slot was freed and is gone")
        return slot

    def _evict(self, block: int) -> None:
        slot = self._table.evict(block)
        if slot != SHARED:
            self._policy.removed(block)
            self._arena.release(slot)

    def _share(self, block: int) -> None:
        self._table.begin_arrival(block, SHARED)
        self._table.arrived(block)

    def _begin_arrival(self, block: int, slot: int, position: int) -> None:
        source = self._pool.block(PlaneName.WEIGHT, self._partition.blocks[block])
        target = self._arena.tensor(slot)
        after = self._slot_read.pop(slot, None) or self._backend.compute_event()
        self._table.begin_arrival(block, slot)
        begin = time.perf_counter()  # some backends copy at once, and compute waits for that
        self._arrivals[block] = self._backend.copy_in(target, source, after)
        self.counters.stall_s += time.perf_counter() - begin
        self._policy.inserted(block, self._schedule.next_use(block, position))
        self.counters.fetches += 1
        self.counters.bytes_in += source.numel * target.element_size()
