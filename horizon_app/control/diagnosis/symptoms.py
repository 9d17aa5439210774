"""What may be done about a symptom, which of it this run allows, and what a check concludes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.knobs import Knob, KnobRange
from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.run_checks import Finding, Remedy
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.control.diagnosis.facts import RunFacts
from horizon_app.control.spec_changes import laid_over


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """Something to do, in words and, where a machine can do it, as values by dotted key of the spec."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True, slots=True)
class Symptom:
    """Something that is not as it should be; of the proposals the first that this run allows counts."""

    verdict: Verdict
    evidence: str
    proposals: Sequence[Proposal]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One item of the checklist."""

    id: str
    title: str
    threshold: str


def conclude(
    facts: RunFacts,
    item: Item,
    symptoms: Sequence[Symptom],
    *,
    numbers: Mapping[str, float],
    calm: str,
    lacks: str = "",
) -> Finding:
    """The verdict of the worst symptom; without any, fine as `calm` says, or unknown where something `lacks`."""
    order = list(Verdict)
    ranked = sorted(symptoms, key=lambda symptom: order.index(symptom.verdict), reverse=True)
    if ranked:
        verdict, evidence = ranked[0].verdict, "; ".join(symptom.evidence for symptom in ranked)
        fix, remedy = first_possible(facts, ranked[0].proposals)
    else:
        verdict, evidence, fix, remedy = (Verdict.UNKNOWN, lacks, "", None) if lacks else (Verdict.OK, calm, "", None)
    return Finding(
        id=item.id, title=item.title, verdict=verdict, evidence=evidence, threshold=item.threshold, fix=fix,
        step=facts.step, remedy=remedy,
        numbers={name: value if math.isfinite(value) else None for name, value in numbers.items()},
    )  # fmt: skip


def first_possible(facts: RunFacts, proposals: Sequence[Proposal]) -> tuple[str, Remedy | None]:
    """The first proposal that can be carried out, else the first one in words alone."""
    for proposal in proposals:
        if not proposal.values:
            return proposal.text, None
        remedy = _remedy(facts, proposal.values)
        if remedy is not None:
            return proposal.text, remedy
    return "", None


def _remedy(facts: RunFacts, values: Mapping[str, Any]) -> Remedy | None:
    knobs = {knob.spec_key: knob for knob in Knob}
    if facts.takes_knobs and values.keys() <= knobs.keys():
        if not all(_allows(facts.knobs.get(knobs[key]), value) for key, value in values.items()):
            return None
        return Remedy(by="knobs", set={knobs[key].value: value for key, value in values.items()})
    try:
        # What this version can't run is refused by name, and so never proposed.
        parse_spec(laid_over(facts.spec if facts.asked is None else facts.asked, values))
    except SpecRefused:
        return None
    return Remedy(by="clone", set=dict(values))


def _allows(known: KnobRange | None, value: Any) -> bool:
    if known is None or known.fixed:
        return False
    if isinstance(value, str):
        return value in known.words
    return (known.minimum is None or value >= known.minimum) and (known.maximum is None or value <= known.maximum)
