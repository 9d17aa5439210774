"""Whether the loss runs away: not finite, rising from its best, gradients growing, float16 out of range."""

import re
from collections.abc import Iterator
from statistics import median

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.run_checks import Finding
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.spec_words import Compute
from horizon_app.control.diagnosis.facts import RunFacts
from horizon_app.control.diagnosis.robust import levels, noise, share
from horizon_app.control.diagnosis.symptoms import Item, Proposal, Symptom, conclude

STEPS_NEEDED = 20
CELL_STEPS = 10
"""Losses of which the median is a level: a spike of fewer than half of them does not move it."""
NOISE_LIMIT, BAD_NOISE_LIMIT = 4.0, 6.0
"""Standard deviations of one loss. The lowest of many levels lies about one below the course, the newest one above."""
LOST, RELATIVE = 0.25, 0.05
"""Shares: of what the loss had come down, and of its best level, below which a rise is no divergence."""
BAD_RELATIVE = 0.1
"""The same for a problem, where all is lost that the loss had come down."""
GROWN, BADLY_GROWN = 10.0, 100.0
"""Gradient norm in multiples of its median before: warm-up and new data change it by two or three."""
MANY_BROKEN = 3
OVERFLOWS = 0.05
"""Share of steps that overflow float16: a scale that has found its place overflows once in some thousand."""
LOW_SCALE, LAST_SCALE = 16.0, 1.0
"""Loss scales: with ever less, small gradients are lost; below one the engine does not go."""
_BROKEN = re.compile(r"not finite|float16.*overflow", re.IGNORECASE)
_WATCHED = {"train/loss": "loss", "train/grad_norm": "gradient norm", "eval/loss": "eval loss"}
_ITEM = Item(
    id="divergence", title="Loss runs away",
    threshold=f"finite, and less than {NOISE_LIMIT:g} times its noise and {LOST:.0%} of its gain above its best level",
)  # fmt: skip


def divergence(facts: RunFacts) -> Finding:
    """The finding about a loss that runs away."""
    losses = facts.ever("train/loss").finite
    numbers: dict[str, float] = {"steps": len(losses)}
    calm = ""
    if len(losses) >= STEPS_NEEDED:
        course = levels(losses, CELL_STEPS)
        numbers |= {"level": course[-1], "best_level": min(course), "first_level": course[0]}
        # Of a long curve only extremes are known, which differ by more; of the newest steps, every loss is.
        lately = facts.lately("train/loss").finite
        numbers["noise"] = min(noise(losses[:-CELL_STEPS]), noise(lately[:-CELL_STEPS]))
        calm = f"the loss is {course[-1]:.4g} and was {min(course):.4g} at best, in medians of {CELL_STEPS}"
    lacks = "" if calm else f"{len(losses)} losses were measured; {STEPS_NEEDED} are needed"
    symptoms = [*_failed(facts), *_broken(facts), *_overflowing(facts), *_rising(facts, numbers), *_growing(facts)]
    return conclude(facts, _ITEM, symptoms, numbers=numbers, calm=calm, lacks=lacks)


def _failed(facts: RunFacts) -> Iterator[Symptom]:
    if facts.state is RunState.FAILED and _BROKEN.search(facts.reason):
        yield Symptom(verdict=Verdict.PROBLEM, evidence=facts.reason, proposals=calmer(facts))


def _broken(facts: RunFacts) -> Iterator[Symptom]:
    for key, name in _WATCHED.items():
        curve = facts.lately(key)
        if not curve.num_broken:
            continue
        bad = curve.ends_broken or curve.num_broken >= MANY_BROKEN
        last = ", the last one too" if curve.ends_broken else ""
        evidence = f"{curve.num_broken} of the last {len(curve.values)} values of the {name} are not finite{last}"
        verdict = Verdict.PROBLEM if bad else Verdict.WARNING
        yield Symptom(verdict=verdict, evidence=evidence, proposals=calmer(facts))


def _overflowing(facts: RunFacts) -> Iterator[Symptom]:
    scale = facts.lately("train/loss_scale").last
    if scale is not None and scale <= LOW_SCALE and facts.setting("precision.loss_scale") == "dynamic":
        verdict = Verdict.PROBLEM if scale <= LAST_SCALE else Verdict.WARNING
        evidence = f"float16 came down to a loss scale of {scale:g}; {LAST_SCALE:g} is the smallest"
        yield Symptom(verdict=verdict, evidence=evidence, proposals=calmer(facts))
    skipped = facts.lately("train/skipped_steps").finite
    again = skipped[-1] - skipped[0] if skipped else 0.0
    if len(skipped) >= STEPS_NEEDED and share(again, len(skipped)) > OVERFLOWS:
        evidence = f"{again:.0f} of the last {len(skipped)} steps overflowed float16 and were done again"
        yield Symptom(verdict=Verdict.WARNING, evidence=evidence, proposals=calmer(facts))


def _rising(facts: RunFacts, numbers: dict[str, float]) -> Iterator[Symptom]:
    if "level" not in numbers:
        return
    now, best, jitter = numbers["level"], numbers["best_level"], numbers["noise"]
    rise, gained = now - best, max(0.0, numbers["first_level"] - best)
    if not (rise > NOISE_LIMIT * jitter and rise > LOST * gained and rise > RELATIVE * abs(best)):
        return
    bad = rise > BAD_NOISE_LIMIT * jitter and rise >= gained and rise > BAD_RELATIVE * abs(best)
    of = f", {rise / gained:.0%} of what it had come down" if gained > 0 else ""
    evidence = (
        f"the loss rose from {best:.4g} at best to {now:.4g}{of} (medians of {CELL_STEPS}, noise {jitter:.2g} a step)"
    )
    yield Symptom(verdict=Verdict.PROBLEM if bad else Verdict.WARNING, evidence=evidence, proposals=calmer(facts))


def _growing(facts: RunFacts) -> Iterator[Symptom]:
    norms = facts.ever("train/grad_norm").finite
    if len(norms) < 2 * STEPS_NEEDED:
        return
    now, before = median(norms[-CELL_STEPS:]), median(norms[:-CELL_STEPS])
    if before <= 0 or now < GROWN * before:
        return
    evidence = f"the gradient norm is {now:.3g} where it was {before:.3g}"
    verdict = Verdict.PROBLEM if now >= BADLY_GROWN * before else Verdict.WARNING
    yield Symptom(verdict=verdict, evidence=evidence, proposals=calmer(facts))


def calmer(facts: RunFacts) -> list[Proposal]:
    """What makes training steadier: a format with the range of fp32, a lower learning rate, clipping."""
    found: list[Proposal] = []
    if facts.setting("precision.compute") == Compute.FP16.value:
        text = "compute in bf16, which has the range of fp32; float16 ends at 65504"
        values: dict[str, object] = {"precision.compute": Compute.BF16.value}
        if facts.setting("precision.loss_scale") != "dynamic":
            values["precision.loss_scale"] = "dynamic"  # a number is for float16 alone
        found.append(Proposal(text=text, values=values))
    rate, values = facts.number("training.learning_rate"), {}
    if rate:
        half = float(f"{rate / 2:.6g}")
        text = f"halve the learning rate: {half:g} instead of {rate:g}"
        values["training.learning_rate"] = half
        if facts.number("training.max_grad_norm") == 0:
            values["training.max_grad_norm"] = 1.0
            text = f"{text}; and clip the gradient norm to 1, which is off"
        found.append(Proposal(text=text, values=values))
    more = (
        "look at the data of these steps, and at the weights with `horizon model inspect`; more sequences a step and "
    )
    return [*found, Proposal(text=f"{more}layers in fp32 (precision.keep_fp32) make it steadier")]
