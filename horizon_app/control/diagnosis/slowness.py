"""Whether the loss falls in a straight line and hardly at all: each step goes a short way, where a longer one would do.

A loss that hardly falls says nothing by itself: a model may have learnt what there is. One that has, falls ever less.
So what counts is that it falls on, by more than chance, as fast at the end as at first, with gradients as long as then.
"""

import math
from collections.abc import Iterator
from statistics import median

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.run_checks import Finding
from horizon_app.control.diagnosis.facts import RunFacts
from horizon_app.control.diagnosis.robust import noise, share
from horizon_app.control.diagnosis.symptoms import Item, Proposal, Symptom, conclude

STEPS_NEEDED = 200
PARTS = 5
"""The first, the middle and the last of so many parts are compared, each by its median."""
SLOW = 0.05
"""Share of its first level that the loss has come down by: who has come further learns."""
STRAIGHT = 0.8
"""The smaller fall of both halves by the larger. Of a curve that flattens out, by a power of the steps, it is 0.76."""
CERTAIN = 6.0
"""Standard errors of a difference of two medians that each half has to fall by."""
STEADY = 0.5
"""Gradient norm at the end by that at the start: where it fades, the model has found its place."""
PRECISE = 0.01
"""Noise of one loss as a share of its level, below which a step of many sequences tells no more than one of fewer."""
MANY_SEQUENCES = 64
LONGER = 3.0
_SIGMAS_OF_MEDIAN = 1.2533
"""Standard error of a median in those of a mean."""
_ITEM = Item(
    id="slow_learning", title="Loss hardly falls",
    threshold=f"no straight line with a fall below {SLOW:.0%} while gradients stay as long as they were",
)  # fmt: skip


def slowness(facts: RunFacts) -> Finding:
    """The finding about steps that are too short."""
    after = math.ceil(_warm_up(facts))
    losses = list(facts.ever("train/loss").since(after + 1).values())
    needed = max(STEPS_NEEDED, after)  # seen from right behind a long warm-up, every course looks straight
    if facts.step - after < needed or len(losses) < STEPS_NEEDED:
        since = f" since the warm-up of {after} steps" if after else ""
        lacks = f"{len(losses)} losses were measured{since}; {needed} are needed"
        return conclude(facts, _ITEM, [], numbers={"steps": len(losses)}, calm="", lacks=lacks)
    first, middle, last = _parts(losses)
    jitter = min(noise(losses), noise(facts.lately("train/loss").finite))
    numbers = {
        "first_level": first, "level": last, "fall": share(first - last, abs(first)),
        "fall_of_first_half": first - middle, "fall_of_second_half": middle - last,
        "relative_noise": share(jitter, abs(last)),
    }  # fmt: skip
    evidence = f"the loss came from {first:.4g} to {last:.4g} ({numbers['fall']:.1%}) in {facts.step - after} steps"
    error = _SIGMAS_OF_MEDIAN * jitter * math.sqrt(2 / (len(losses) // PARTS))
    return conclude(facts, _ITEM, list(_short(facts, numbers, error, evidence)), numbers=numbers, calm=evidence)


def _warm_up(facts: RunFacts) -> float:
    """Steps in which the learning rate is still rising."""
    asked = facts.number("training.warmup_steps") or 0.0
    return asked if asked >= 1 else asked * (facts.planned("total_steps") or facts.step)


def _parts(values: list[float]) -> tuple[float, float, float]:
    size, half = len(values) // PARTS, len(values) // 2
    return median(values[:size]), median(values[half - size // 2 : half + size // 2 + 1]), median(values[-size:])


def _short(facts: RunFacts, numbers: dict[str, float], error: float, evidence: str) -> Iterator[Symptom]:
    falls = numbers["fall_of_first_half"], numbers["fall_of_second_half"]
    less, more = min(falls), max(falls)
    if not (less > CERTAIN * error and less >= STRAIGHT * more and numbers["fall"] < SLOW) or not _is_steady(facts):
        return
    told = f"{evidence}, in a straight line: {falls[0]:.2g} in the first half and {falls[1]:.2g} in the second"
    batch = facts.setting("training.global_batch_size")
    proposals = [*_longer_steps(facts)]
    if isinstance(batch, int) and batch >= MANY_SEQUENCES and numbers["relative_noise"] < PRECISE:
        told = f"{told}; with {batch} sequences a step, losses lie {numbers['relative_noise']:.2%} around their course"
        half = {"training.global_batch_size": batch // 2}
        text = f"train on {batch // 2} sequences a step instead of {batch}: twice the steps for the same tokens"
        proposals = [Proposal(text=text, values=half), *proposals]
    yield Symptom(verdict=Verdict.WARNING, evidence=told, proposals=proposals)


def _is_steady(facts: RunFacts) -> bool:
    norms = facts.ever("train/grad_norm").finite
    if len(norms) < STEPS_NEEDED:
        return False
    size = len(norms) // PARTS
    return 0.0 < STEADY * median(norms[:size]) <= median(norms[-size:])


def _longer_steps(facts: RunFacts) -> Iterator[Proposal]:
    rate = facts.number("training.learning_rate")
    if rate:
        longer = float(f"{LONGER * rate:.6g}")
        text = f"raise the learning rate: {longer:g} instead of {rate:g}; watch whether the loss runs away"
        yield Proposal(text=text, values={"training.learning_rate": longer})
    yield Proposal(text="raise the learning rate, and watch whether the loss runs away")
