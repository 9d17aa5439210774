"""Whether the device waits for blocks, and what would bring them in time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.knobs import Knob
from horizon_app.contracts.run_checks import Finding
from horizon_app.contracts.sizes import show_bytes
from horizon_app.contracts.spec_words import Policy
from horizon_app.control.diagnosis.facts import RunFacts
from horizon_app.control.diagnosis.robust import mean, share
from horizon_app.control.diagnosis.symptoms import Item, Proposal, Symptom, conclude

STEPS_NEEDED = 20
"""Fewer say little: the first ones fill the arena and warm caches up."""
STEPS_SEEN = 50
STALLED, BADLY_STALLED = 0.2, 0.5
"""Shares of a step's time. Below a fifth, knobs hardly make a run faster; at half, it could take half as long."""
UNTIMELY = 0.02
"""Share of accesses that were late or missed: below it, a wider window has nothing to gain."""
LOST_TO_POLICY = 0.05
"""Hit rate below what the best policy gets in the same arena without any prefetching: blocks leave that are needed."""
SMALL_ARENA = 0.95
"""Best hit rate without prefetching, below which more slots would spare blocks their way."""
WINDOWS = (1, 3, 5, 8)
"""Steps of widening. Beyond eight, blocks come early enough, and what is missing is bandwidth."""
WIDER_ARENA = 1.5
_INFORMED = {Policy.SCHEDULE.value, Policy.OPTIMAL.value}
_ITEM = Item(
    id="device_starved", title="Device waits for blocks",
    threshold=f"waits below {STALLED:.0%} of the time of a step; {BADLY_STALLED:.0%} is a problem",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """Averages over the newest steps."""

    steps: int
    step_s: float
    stall_s: float
    hit: float
    late: float
    miss: float
    optimum: float
    tokens: float
    copied: float
    """Bytes that came to the device in a second."""

    @property
    def stalled(self) -> float:
        return share(self.stall_s, self.step_s)


def starvation(facts: RunFacts) -> Finding:
    """The finding about a device that waits."""
    seen = _look(facts)
    if seen.steps < STEPS_NEEDED:
        since = " under the knobs in force" if facts.judged_from > 1 else ""
        lacks = f"{seen.steps} steps were timed{since}; {STEPS_NEEDED} are needed"
        return conclude(facts, _ITEM, [], numbers={"steps": seen.steps}, calm="", lacks=lacks)
    evidence = (
        f"waited {seen.stalled:.0%} of the last {seen.steps} steps ({seen.stall_s:.3g} of {seen.step_s:.3g} s each); "
        f"hit rate {seen.hit:.1%} (without prefetching {seen.optimum:.1%} at best), {seen.late:.1%} late, "
        f"{seen.miss:.1%} missed; "
        f"window {_told(facts, Knob.PREFETCH_WINDOW)}, {_told(facts, Knob.MAX_GPU_BLOCKS)} slots, "
        f"{seen.tokens:,.0f} tokens a step; {show_bytes(seen.copied)} a second came to the device"
    )
    numbers = {
        "stall_share": seen.stalled, "hit_rate": seen.hit, "late_rate": seen.late, "miss_rate": seen.miss,
        "optimal_hit_rate": seen.optimum, "tokens_per_step": seen.tokens, "copied_bytes_per_second": seen.copied,
    }  # fmt: skip
    symptoms = [Symptom(verdict=verdict, evidence=evidence, proposals=_proposals(facts, seen))
                for verdict in _verdicts(seen.stalled)]  # fmt: skip
    return conclude(facts, _ITEM, symptoms, numbers=numbers, calm=evidence)


def _verdicts(stalled: float) -> Sequence[Verdict]:
    if stalled < STALLED or not math.isfinite(stalled):
        return ()
    return (Verdict.PROBLEM if stalled >= BADLY_STALLED else Verdict.WARNING,)


def _look(facts: RunFacts) -> _Seen:
    taken, waited = (facts.lately(key).since(facts.judged_from) for key in ("time/step", "time/stall"))
    steps = sorted(taken.keys() & waited.keys())[-STEPS_SEEN:]

    def average(key: str, otherwise: float) -> float:
        values = facts.lately(key).since(steps[0] if steps else 0)
        return mean([values[step] for step in steps if step in values] or [otherwise])

    speeds = facts.lately("throughput/tokens_per_second").since(0)
    return _Seen(
        steps=len(steps), step_s=mean([taken[step] for step in steps] or [0.0]),
        stall_s=mean([waited[step] for step in steps] or [0.0]),
        hit=average("prefetch/hit_rate", 1.0), late=average("prefetch/late_rate", 0.0),
        miss=average("prefetch/miss_rate", 0.0), optimum=average("prefetch/optimal_hit_rate", 1.0),
        copied=average("transfer/host_to_device", 0.0),
        tokens=mean([speeds[step] * taken[step] for step in steps if step in speeds] or [0.0]),
    )  # fmt: skip


def _proposals(facts: RunFacts, seen: _Seen) -> list[Proposal]:
    """The cheapest first. Blocks that are late need a wider window; blocks that are gone, a policy that keeps them."""
    timing, keeping = list(_wider_window(facts, seen)), list(_better_policy(facts, seen))
    first = [*timing, *keeping] if seen.late >= seen.miss else [*keeping, *timing]
    return [*first, *_wider_arena(facts, seen), *_more_tokens(facts)]


def _wider_window(facts: RunFacts, seen: _Seen) -> Iterator[Proposal]:
    window = facts.in_force(Knob.PREFETCH_WINDOW)
    if not isinstance(window, int) or seen.late + seen.miss < UNTIMELY:
        return  # auto widens by itself
    wider = next((width for width in WINDOWS if width > window), None)
    if wider is not None:
        text = f"bring blocks in {wider} compute steps ahead instead of {window}"
        yield Proposal(text=text, values={"offload.prefetch_window": wider})


def _better_policy(facts: RunFacts, seen: _Seen) -> Iterator[Proposal]:
    policy = facts.in_force(Knob.POLICY)
    if seen.optimum - seen.hit > LOST_TO_POLICY and policy not in _INFORMED:
        text = f"replace blocks by the schedule instead of by {policy}: it knows the next use of each"
        yield Proposal(text=text, values={"offload.policy": Policy.SCHEDULE.value})


def _wider_arena(facts: RunFacts, seen: _Seen) -> Iterator[Proposal]:
    slots, known = facts.in_force(Knob.MAX_GPU_BLOCKS), facts.knobs.get(Knob.MAX_GPU_BLOCKS)
    if not isinstance(slots, int) or known is None or known.maximum is None or seen.optimum >= SMALL_ARENA:
        return
    more = min(math.ceil(slots * WIDER_ARENA), known.maximum)
    if more > slots:
        copied = f"{1 - seen.optimum:.0%} of accesses need a copy"
        text = f"give the device {more} slots instead of {slots}: with so few, {copied}"
        yield Proposal(text=text, values={"offload.max_gpu_blocks": more})


def _more_tokens(facts: RunFacts) -> Iterator[Proposal]:
    batch = facts.setting("training.global_batch_size")
    why = "a block's way is then paid for by more computing"
    if isinstance(batch, int):
        values = {"training.global_batch_size": 2 * batch}
        yield Proposal(text=f"train on {2 * batch} sequences a step instead of {batch}: {why}", values=values)
    yield Proposal(text=f"train on more tokens a step, or on a device that is reached faster: {why}")


def _told(facts: RunFacts, knob: Knob) -> int | str:
    value = facts.in_force(knob)
    return "unknown" if value is None else value
