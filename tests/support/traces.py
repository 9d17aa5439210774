"""Standard traces of block accesses, and replays of them without prefetch: what a replacement policy is judged by."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

from horizon_app.engine.policy.optimal import next_uses, optimal_misses
from horizon_app.engine.policy.protocol import NEVER, ReplacementPolicy

Step = tuple[int, ...]
"""The blocks that one compute step asks for, in order."""
WINDOW = 3

LAYERS = 24
BLOCKS_PER_LAYER = 5
EMBEDDING = (LAYERS * BLOCKS_PER_LAYER,)
HEAD = tuple(range(EMBEDDING[0] + 1, EMBEDDING[0] + 7))
OPTIMIZER_STEPS = 4

MOE_LAYERS = 8
EXPERTS = 16
MOE_WIDTH = 2 + EXPERTS  # blocks of a layer: two of attention, then one for each expert
ROWS = 160  # blocks of the random traces and of the scans


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Optimizer steps, each of them compute steps.

    `guessed` blocks are chosen by the data, so nobody knows their next use. `stale` says that all blocks leave at each
    optimizer step's border, as on the device, and that each step has a schedule of its own; otherwise one order runs
    through all of them, as on the host.
    """

    name: str
    steps: tuple[tuple[Step, ...], ...]
    stale: bool = True
    guessed: frozenset[int] = frozenset()

    @property
    def schedules(self) -> tuple[tuple[Step, ...], ...]:
        """The compute steps of each schedule."""
        return self.steps if self.stale else (tuple(chain.from_iterable(self.steps)),)

    @property
    def blocks(self) -> frozenset[int]:
        """All blocks that are asked for."""
        return frozenset(block for schedule in self.schedules for step in schedule for block in step)

    def optimal_misses(self, capacity: int) -> int:
        """Misses of Belady's MIN, who knows the next use of guessed blocks too."""
        return sum(optimal_misses(list(chain.from_iterable(schedule)), capacity) for schedule in self.schedules)


class Eviction(NamedTuple):
    """A victim and the access that it made room for, counted through all optimizer steps."""

    at: int
    victim: int


@dataclass
class Replay:
    """What a policy did on a trace."""

    misses: int
    evictions: list[Eviction]


def replay(policy: ReplacementPolicy, trace: Trace, capacity: int) -> Replay:
    """Run all accesses through a tier of `capacity` slots that brings blocks in when they are asked for."""
    resident: set[int] = set()
    result = Replay(0, [])
    at = 0
    for schedule in trace.schedules:
        uses = next_uses(list(chain.from_iterable(schedule)))
        starts = [0, *accumulate(len(step) for step in schedule)]
        for index, step in enumerate(schedule):
            policy.horizon(starts[index], starts[min(index + 1 + WINDOW, len(schedule))])
            for position, block in enumerate(step, starts[index]):
                guessed = block in trace.guessed
                if block not in resident:
                    result.misses += 1
                    if len(resident) == capacity:
                        victim = policy.victim(lambda _: True)
                        assert victim in resident, "a full tier always has a victim, and it is one that is there"
                        policy.removed(victim)
                        resident.remove(victim)
                        result.evictions.append(Eviction(at, victim))
                    policy.inserted(block, NEVER if guessed else position)
                    resident.add(block)
                policy.used(block, NEVER if guessed else uses[position])
                at += 1
        for block in sorted(resident) if trace.stale else ():
            policy.removed(block)
        resident = set() if trace.stale else resident
    return result


def guessed_trace(name: str, accesses: Sequence[int], stale_every: int | None = None) -> Trace:
    """A trace of which the schedule says nothing; all blocks leave after each `stale_every` accesses."""
    length = stale_every or max(1, len(accesses))
    steps = tuple(((*accesses[i : i + length],),) for i in range(0, len(accesses), length))
    return Trace(name=name, steps=steps, stale=stale_every is not None, guessed=frozenset(accesses))


def standard_traces() -> list[Trace]:
    """Every trace that the policies are measured and tested on; the same ones every time."""
    up_and_down = tuple(_pass(1, recompute=False) for _ in range(OPTIMIZER_STEPS))
    accumulated = tuple(_pass(4, recompute=True) for _ in range(OPTIMIZER_STEPS))
    micro_batch_major = tuple(_pass(1, recompute=True) * 4 for _ in range(OPTIMIZER_STEPS))
    experts, chosen = _mixture_of_experts()
    return [
        Trace(name="up and down", steps=up_and_down),
        Trace(name="up and down, kept", steps=up_and_down, stale=False),
        Trace(name="recompute", steps=tuple(_pass(1, recompute=True) for _ in range(OPTIMIZER_STEPS))),
        Trace(name="accumulation, layer-major", steps=accumulated),
        Trace(name="accumulation, layer-major, kept", steps=accumulated, stale=False),
        Trace(name="accumulation, micro-batch-major", steps=micro_batch_major),
        Trace(name="experts", steps=experts, guessed=chosen),
        Trace(name="experts, kept", steps=experts, stale=False, guessed=chosen),
        Trace(name="scan", steps=tuple((tuple(range(ROWS)),) for _ in range(8)), stale=False),
        guessed_trace("scan, guessed", list(range(ROWS)) * 8),
        Trace(name="random", steps=tuple(_random_steps(1.0)), stale=False),
        Trace(name="skewed", steps=tuple(_random_steps(0.97)), stale=False),
        guessed_trace("skewed, guessed", list(chain.from_iterable(chain.from_iterable(_random_steps(0.97))))),
        guessed_trace(
            "skewed, guessed, stale", list(chain.from_iterable(chain.from_iterable(_random_steps(0.97)))), 900
        ),
        guessed_trace("scans between skewed rows, guessed", list(_rows_and_scans())),
    ]


def _pass(micro_batches: int, *, recompute: bool) -> tuple[Step, ...]:
    """Forward up and backward down, all micro-batches together; the loss in two chunks."""
    layers = [tuple(range(i * BLOCKS_PER_LAYER, (i + 1) * BLOCKS_PER_LAYER)) for i in range(LAYERS)]
    steps: list[Step] = [EMBEDDING]
    steps += [layer * micro_batches for layer in layers]
    steps.append((*HEAD, *reversed(HEAD)) * 2 * micro_batches)
    for layer in reversed(layers):
        steps.append(((*layer, *reversed(layer)) if recompute else layer[::-1]) * micro_batches)
    return tuple(without_repeats(step) for step in steps)


def without_repeats(step: Step) -> Step:
    """A block that follows itself is one access."""
    return tuple(block for i, block in enumerate(step) if i == 0 or step[i - 1] != block)


def _mixture_of_experts() -> tuple[tuple[tuple[Step, ...], ...], frozenset[int]]:
    """Layers of which each step uses some experts, a few of them mostly; backward uses those that forward did."""
    choice = random.Random(7)
    favourites = [choice.sample(range(EXPERTS), EXPERTS) for _ in range(MOE_LAYERS)]
    weights = [1 / (rank + 1) ** 1.2 for rank in range(EXPERTS)]
    steps: list[tuple[Step, ...]] = []
    for _ in range(2 * OPTIMIZER_STEPS):
        up: list[Step] = []
        for layer in range(MOE_LAYERS):
            first = layer * MOE_WIDTH
            used = sorted(set(choice.choices(favourites[layer], weights, k=6)))
            up.append((first, first + 1, *(first + 2 + expert for expert in used)))
        steps.append((*up, *(step[::-1] for step in reversed(up))))
    chosen = {layer * MOE_WIDTH + 2 + expert for layer in range(MOE_LAYERS) for expert in range(EXPERTS)}
    return tuple(steps), frozenset(chosen)


def _random_steps(skew: float) -> Iterator[tuple[Step, ...]]:
    """Rows drawn at random; each is drawn `skew` times as often as the one before."""
    draw = random.Random(11)
    weights = [skew**rank for rank in range(ROWS)]
    rows = draw.sample(range(ROWS), ROWS)
    for _ in range(OPTIMIZER_STEPS):
        yield tuple(without_repeats(tuple(draw.choices(rows, weights, k=50))) for _ in range(18))


def _rows_and_scans() -> Iterator[int]:
    """Skewed rows, among which scans through blocks that nobody needs again soon."""
    draw = random.Random(13)
    weights = [0.9**rank for rank in range(ROWS // 2)]
    for scan in range(24):
        yield from draw.choices(range(ROWS // 2), weights, k=120)
        yield from range(ROWS // 2 + scan % 4 * 20, ROWS // 2 + scan % 4 * 20 + 20)
