"""Whether the loss swings: how far single steps lie from its course, against its level, and what that looks like."""

from statistics import median

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.run_checks import Finding
from horizon_app.control.diagnosis.divergence import calmer
from horizon_app.control.diagnosis.facts import RunFacts
from horizon_app.control.diagnosis.robust import alternation, residuals, share, swing
from horizon_app.control.diagnosis.symptoms import Item, Proposal, Symptom, conclude

STEPS_NEEDED = 50
LEVEL_STEPS = 50
SWINGS, BADLY_SWINGS = 0.35, 0.75
"""Standard deviation around the course, as a share of the level. Eight sequences a step give 5 to 25 %."""
LEAST_LEVEL = 0.1
"""Of the first level: a loss that has come down to less is measured against this, for its noise does not follow."""
OVERSHOOTS = -0.3
"""Neighbours this unlike are no chance: each step goes too far, and the next one back."""
FEW_SEQUENCES = 64
"""Beyond so many sequences a step, more of them make a step hardly steadier for what they cost."""
_FIRST_STEPS = 10
_ITEM = Item(
    id="oscillation", title="Loss swings",
    threshold=f"swings below {SWINGS:.0%} of its level; {BADLY_SWINGS:.0%} is a problem",
)  # fmt: skip


def oscillation(facts: RunFacts) -> Finding:
    """The finding about a loss that swings."""
    losses = facts.lately("train/loss").finite
    if len(losses) < STEPS_NEEDED:
        lacks = f"{len(losses)} losses were measured; {STEPS_NEEDED} are needed"
        return conclude(facts, _ITEM, [], numbers={"steps": len(losses)}, calm="", lacks=lacks)
    left = residuals(losses)
    level, spread, likeness = median(losses[-LEVEL_STEPS:]), swing(left), alternation(left)
    first = median(facts.ever("train/loss").finite[:_FIRST_STEPS] or losses)
    relative = share(spread, max(abs(level), LEAST_LEVEL * abs(first)))
    clipped = _clipped(facts)
    evidence = f"steps lie {spread:.3g} around a loss of {level:.4g} ({relative:.0%})"
    if clipped is not None:
        evidence = f"{evidence}; {clipped:.0%} of the steps were clipped"
    numbers = {"level": level, "swing": spread, "relative_swing": relative, "likeness_of_neighbours": likeness}
    numbers |= {} if clipped is None else {"clipped_share": clipped}
    symptoms: list[Symptom] = []
    if relative >= SWINGS:
        verdict = Verdict.PROBLEM if relative >= BADLY_SWINGS else Verdict.WARNING
        how = "one step up, the next one down" if likeness < OVERSHOOTS else "by chance, as small batches do"
        symptoms.append(Symptom(verdict=verdict, evidence=f"{evidence}, {how}", proposals=_proposals(facts, likeness)))
    return conclude(facts, _ITEM, symptoms, numbers=numbers, calm=evidence)


def _clipped(facts: RunFacts) -> float | None:
    """Share of the newest steps whose gradients were longer than allowed; None where nothing is clipped."""
    limit, norms = facts.number("training.max_grad_norm"), facts.lately("train/grad_norm").finite
    return share(sum(norm > limit for norm in norms), len(norms)) if limit and norms else None


def _proposals(facts: RunFacts, likeness: float) -> list[Proposal]:
    """Clipping where it is off; then a lower rate where steps overshoot, or more sequences where chance is at work."""
    found: list[Proposal] = []
    if facts.number("training.max_grad_norm") == 0:
        found.append(Proposal(text="clip the gradient norm to 1, which is off", values={"training.max_grad_norm": 1.0}))
    batch = facts.setting("training.global_batch_size")
    if likeness >= OVERSHOOTS and isinstance(batch, int) and 2 * batch <= FEW_SEQUENCES:
        text = f"train on {2 * batch} sequences a step instead of {batch}"
        found.append(Proposal(text=text, values={"training.global_batch_size": 2 * batch}))
    return [*found, *calmer(facts)]
