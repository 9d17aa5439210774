"""A streamer on made-up blocks, without a model: what it does to the arena is checked at every move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from horizon_app.contracts.residency import Direction
from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.memory.arena import Arena
from horizon_app.engine.memory.block_table import BlockTable, DeviceWeight
from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Use
from horizon_app.engine.memory.host_pool import HostSpan
from horizon_app.engine.memory.planes import Opening, PlaneName
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.policy.protocol import NEVER, ReplacementPolicy
from horizon_app.engine.streaming.backends.protocol import Backend, Event
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.streaming.schedule import ComputeStep, Schedule
from horizon_app.engine.streaming.streamer import Streamer
from horizon_app.engine.telemetry.counters import Counters
from tests.support.chaos import poison
from tests.support.host_pools import host_pool

BLOCK_NUMEL = 32
NOBODY = -1


def made_up_partition(num_blocks: int) -> Partition:
    """One parameter that fills `num_blocks` blocks."""
    facts = ParameterFacts(name="w", shape=(num_blocks, BLOCK_NUMEL), use=Use.LINEAR, decay=True)
    return partition([("L0", [facts])], block_bytes=BLOCK_NUMEL * 4, element_bytes=4)


def schedule_of(steps: Sequence[Sequence[int]]) -> Schedule:
    """A schedule from the blocks of each compute step; a block that follows itself is one access, as in a real one."""
    accesses: list[int] = []
    placed: list[ComputeStep] = []
    for stage, blocks in enumerate(steps):
        start = len(accesses)
        for block in blocks:
            if not accesses or accesses[-1] != block:
                accesses.append(block)
        placed.append(ComputeStep(stage=stage, direction=Direction.FORWARD, start=start, end=len(accesses)))
    return Schedule(steps=tuple(placed), accesses=tuple(accesses))


class CountingBackend:
    """Counts what really passes through another backend."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.device, self.pins_host_memory = inner.device, inner.pins_host_memory
        self.shares_host_memory = inner.shares_host_memory
        self.bytes_in = self.bytes_out = 0

    def new_arena(self, num_slots: int, block_numel: int, dtype: torch.dtype) -> torch.Tensor:
        return self._inner.new_arena(num_slots, block_numel, dtype)

    def copy_in(self, target: torch.Tensor, source: HostSpan, after: Event) -> Event:
        self.bytes_in += source.numel * target.element_size()
        return self._inner.copy_in(target, source, after)

    def gather_out(self, source: torch.Tensor, target: HostSpan, *, add: bool) -> Event:
        self.bytes_out += source.numel() * source.element_size()
        return self._inner.gather_out(source, target, add=add)

    def after_gathers(self, work: Callable[[], None]) -> Event:
        return self._inner.after_gathers(work)

    def compute_event(self) -> Event:
        return self._inner.compute_event()

    def synchronize(self) -> None:
        self._inner.synchronize()

    def close(self) -> None:
        self._inner.close()


@dataclass
class SpyPolicy:
    """Hands everything on to a real policy, and tells the rig of departures and arrivals."""

    inner: ReplacementPolicy
    on_removed: Callable[[int], None]
    on_inserted: Callable[[int], None]

    def inserted(self, block: int, next_use: int) -> None:
        self.on_inserted(block)
        self.inner.inserted(block, next_use)

    def used(self, block: int, next_use: int) -> None:
        self.inner.used(block, next_use)

    def removed(self, block: int) -> None:
        self.on_removed(block)
        self.inner.removed(block)

    def horizon(self, position: int, window_end: int) -> None:
        self.inner.horizon(position, window_end)

    def resized(self, capacity: int) -> None:
        self.inner.resized(capacity)

    def victim(self, may_leave: Callable[[int], bool]) -> int | None:
        return self.inner.victim(may_leave)


@dataclass
class Move:
    """A block that left for one that was brought in; position is that of the next access at that moment."""

    left: int
    arrived: int
    position: int


@dataclass
class Rig:
    """Streamer, arena and table on made-up blocks; `walk` runs one optimizer step."""

    num_blocks: int
    slots: int
    window: int
    policy: Policy
    backend: CountingBackend
    prefetched: list[Move] = field(default_factory=list[Move])  # moves that prefetch made
    shares_host: bool = False  # for single accesses; `walk` checks the slots that copies take

    def __post_init__(self) -> None:
        self.partition = made_up_partition(self.num_blocks)
        self.pool = host_pool(self.partition)
        self.pool.write(self.partition.parameters[0], torch.arange(self.partition.numel))
        self.table = BlockTable(len(self.partition.blocks))
        self.arena = Arena(self.backend.new_arena(self.slots, BLOCK_NUMEL, torch.float32), poison)
        self.counters = Counters()
        self._left = self._wanted = NOBODY
        self._position = 0
        self.streamer = Streamer(
            partition=self.partition, pool=self.pool, arena=self.arena, table=self.table, backend=self.backend,
            policy=SpyPolicy(make_policy(self.policy, self.slots), self._removed, self._inserted),
            window=self.window, counters=self.counters, shares_host=self.shares_host,
        )  # fmt: skip

    def walk(self, steps: Sequence[Sequence[int]], gradient_after: frozenset[int] = frozenset()) -> Schedule:
        """Run all accesses; after those at the positions `gradient_after`, a gradient takes a slot until the next."""
        schedule = schedule_of(steps)
        self.streamer.begin_optimizer_step(schedule)
        held = NOBODY
        for index, step in enumerate(schedule.steps):
            self._position = step.start
            assert self.streamer.begin_compute_step(index) == step
            for position in range(step.start, step.end):
                self._access(schedule, position)
                if position in gradient_after:
                    held = self._give_back(held)
                    held, after = self.streamer.take_slot()
                    after.wait()
                    self._left = NOBODY
                    self.arena.tensor(held).fill_(-7.0)
                self._check_arena(held)
        self._give_back(held)
        self.streamer.invalidate()
        assert self.arena.num_used == 0
        return schedule

    def expected(self, block: int) -> torch.Tensor:
        """What a block's slot must hold."""
        with self.pool.block(PlaneName.WEIGHT, self.partition.blocks[block]).opened(Opening.READ) as content:
            return content

    def _access(self, schedule: Schedule, position: int) -> None:
        block = schedule.accesses[position]
        self._wanted = block if not self.table.is_on_device(block) else NOBODY
        self._position = position + 1
        got = self.streamer.access(block)
        assert torch.equal(got, self.expected(block)), f"access {position}: block {block} is not there"
        assert self.streamer.access(block).data_ptr() == got.data_ptr(), "asked again, it stays where it is"
        assert torch.equal(got, self.expected(block))
        assert self.table.weight(block) is DeviceWeight.IN_USE

    def _give_back(self, held: int) -> int:
        if held != NOBODY:
            assert set(self.arena.tensor(held).tolist()) == {-7.0}, "nothing is copied into a slot that is lent"
            self.streamer.give_slot_back(held)
        return NOBODY

    def _check_arena(self, held: int) -> None:
        resident = [block for block in range(self.num_blocks) if self.table.is_on_device(block)]
        slots = [self.table.slot_of[block] for block in resident] + ([held] if held != NOBODY else [])
        assert len(set(slots)) == len(slots) <= self.slots, "a slot has one tenant, a block one slot"
        assert all(0 <= slot < self.slots for slot in slots)
        assert len(slots) == self.arena.num_used, "every taken slot has a tenant"

    def _removed(self, block: int) -> None:
        self._left = block

    def _inserted(self, block: int) -> None:
        if self._left != NOBODY and block != self._wanted:
            self.prefetched.append(Move(self._left, block, self._position))
        if block == self._wanted:
            self._wanted = NOBODY
        self._left = NOBODY


def first_use(accesses: Sequence[int], block: int, position: int) -> int:
    """By brute force: where `block` is asked for from `position` on."""
    return next((i for i in range(position, len(accesses)) if accesses[i] == block), NEVER)
