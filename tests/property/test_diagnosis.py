"""Whatever a run has recorded, each check comes to a verdict, in strict JSON, with a fix that the run allows."""

import json
import math
import random

from hypothesis import given
from hypothesis import strategies as st

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.run_state import Cause, RunState
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.control.diagnosis.facts import MemoryFacts, Shortage
from horizon_app.control.diagnosis.report import diagnose
from horizon_app.control.diagnosis.slowness import slowness
from horizon_app.control.knob_values import read_wishes
from horizon_app.control.spec_changes import laid_over
from tests.support.run_facts import SPEC, facts_of

KEYS = (
    "train/loss", "train/grad_norm", "eval/loss", "train/loss_scale", "train/skipped_steps", "time/step", "time/stall",
    "prefetch/hit_rate", "prefetch/late_rate", "prefetch/miss_rate", "prefetch/optimal_hit_rate",
    "throughput/tokens_per_second", "accumulation/micro_batch_size", "transfer/host_to_device",
)  # fmt: skip
ANY = st.one_of(
    st.none(), st.floats(), st.floats(0, 10), st.sampled_from([0.0, 1e308, -1e308, 1e-320, float("nan"), float("inf")])
)
SERIES = st.lists(ANY, max_size=12).flatmap(
    lambda few: st.integers(1, 12).map(lambda times: few * times)  # long enough for every check, at a low price
)
REASONS = st.sampled_from(["", "out of memory", "the disk tier needs", "is not finite", "float16 overflows", "x" * 99])
CHANGES = st.sampled_from(
    [{}, {"precision.compute": "fp16"}, {"training.max_grad_norm": 0.0}, {"training.learning_rate": 0.0},
     {"training.micro_batch_size": 2, "accumulation.steps": 4}, {"offload.prefetch_window": "auto"}]
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(KEYS), SERIES),
    st.sampled_from(RunState), st.sampled_from(Cause), REASONS, CHANGES, st.integers(0, 150), st.integers(0, 3),
)  # fmt: skip
def test_any_curves_give_verdicts_and_only_fixes_that_can_be(
    curves: dict[str, list[float | None]], state: RunState, cause: Cause, reason: str, changes: dict[str, object],
    judged_from: int, halved: int,
) -> None:  # fmt: skip
    facts = facts_of(
        curves, state=state, cause=cause, reason=reason, changes=changes, judged_from=judged_from,
        shortages=[Shortage(step=1, old=4, new=2)] * halved, memory=MemoryFacts(total_bytes=1 << 34),
    )  # fmt: skip
    found = diagnose(facts)
    assert len({finding.id for finding in found}) == 5
    for finding in found:
        json.dumps(finding.model_dump(mode="json"), allow_nan=False)
        assert finding.evidence and finding.threshold
        assert bool(finding.fix) == finding.verdict.asks_for_something
        if finding.remedy is None:
            continue
        assert finding.verdict.asks_for_something
        if finding.remedy.by == "knobs":
            assert facts.takes_knobs and read_wishes(finding.remedy.set, facts.spec, facts.knobs)
        else:
            parse_spec(laid_over(laid_over(SPEC, changes), finding.remedy.set))


@given(
    st.sampled_from(["comes down", "by a power", "stays"]), st.integers(200, 900), st.floats(0.02, 0.5),
    st.floats(0.01, 0.9), st.floats(0.0, 0.2), st.sampled_from([8, 512]), st.integers(0, 1 << 30),
)  # fmt: skip
def test_loss_that_flattens_out_or_stays_is_never_called_slow(
    shape: str, steps: int, time_share: float, gain: float, part: float, batch: int, seed: int
) -> None:
    chance = random.Random(seed)
    courses = {
        "comes down": lambda step: 2 * (1 - gain + gain * math.exp(-step / (time_share * steps))),
        "by a power": lambda step: 4 * step**-time_share,
        "stays": lambda _: 2.0,
    }
    losses = [courses[shape](step) * (1 + chance.gauss(0, part)) for step in range(1, steps + 1)]
    curves = {"train/loss": losses, "train/grad_norm": [chance.uniform(0.5, 1.5) for _ in losses]}
    found = slowness(facts_of(curves, changes={"training.global_batch_size": batch, "training.warmup_steps": 0}))
    assert found.verdict is Verdict.OK, found.evidence
