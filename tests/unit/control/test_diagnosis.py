"""What the checks of a run find: nothing in healthy curves, the right thing in bad ones, and a fix that can be."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.knobs import Knob
from horizon_app.contracts.run_checks import Finding, Remedy
from horizon_app.contracts.run_state import Cause, RunState
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.control.diagnosis.divergence import divergence
from horizon_app.control.diagnosis.facts import MemoryFacts, RunFacts, Shortage
from horizon_app.control.diagnosis.oscillation import oscillation
from horizon_app.control.diagnosis.report import diagnose
from horizon_app.control.diagnosis.shortage import shortage
from horizon_app.control.diagnosis.slowness import slowness
from horizon_app.control.diagnosis.starvation import starvation
from horizon_app.control.knob_values import ranges
from horizon_app.control.spec_changes import laid_over
from tests.support.run_facts import PLAN, SPEC, facts_of

GIB = 1 << 30


def noisy(course: Callable[[int], float], steps: int, part: float, seed: int = 0) -> list[float]:
    """A loss on a course, each step off by a `part` of it (standard deviation)."""
    chance = random.Random(seed)
    return [course(step) * (1 + chance.gauss(0, part)) for step in range(1, steps + 1)]


def verdicts(facts: RunFacts) -> dict[str, Verdict]:
    return {finding.id: finding.verdict for finding in diagnose(facts)}


HEALTHY: dict[str, Callable[[int], Sequence[float]]] = {
    "falls by rule": lambda n: [4.0 / step for step in range(1, n + 1)],
    "pretraining": lambda n: noisy(lambda step: 3 + 8 * math.exp(-step / 60), n, 0.05, n),
    "fine-tuning, hardly any fall": lambda n: noisy(lambda step: 1.4 + 0.3 * math.exp(-step / 40), n, 0.15, n),
    "flat from the start": lambda n: noisy(lambda _: 2.0, n, 0.1, n),
    "memorised": lambda n: noisy(lambda step: 4 * math.exp(-step / 25) + 0.002, n, 0.2, n),
    "a new epoch": lambda n: noisy(lambda step: 2.0 - 0.4 * (step // 100), n, 0.05, n) if n < 400 else [1.0] * n,
    "one bad batch": lambda n: [9.0 if step == n // 2 else 3 - step / n for step in range(n)],
}


@pytest.mark.parametrize("steps", [1, 19, 20, 60, 300, 900])
@pytest.mark.parametrize("shape", HEALTHY)
def test_healthy_loss_of_any_length_is_never_called_bad(shape: str, steps: int) -> None:
    losses = HEALTHY[shape](steps)
    norms = noisy(lambda step: 0.6 + 3 / step, steps, 0.3, steps)
    found = diagnose(facts_of({"train/loss": losses, "train/grad_norm": norms, "time/step": [1.0] * steps,
                               "time/stall": [0.05] * steps}))  # fmt: skip
    assert [one for one in found if one.verdict.asks_for_something] == []
    unknown = {one.id: one.evidence for one in found if one.verdict is Verdict.UNKNOWN}
    assert ("divergence" in unknown) == (steps < 20)
    assert ("oscillation" in unknown) == (steps < 50)
    assert all("are needed" in evidence for evidence in unknown.values())


@pytest.mark.parametrize("seed", range(20))
def test_flat_noisy_loss_is_no_divergence_whatever_the_dice_say(seed: int) -> None:
    assert divergence(facts_of({"train/loss": noisy(lambda _: 2.0, 600, 0.2, seed)})).verdict is Verdict.OK


def rising(after: int, more: int, factor: float) -> list[float]:
    good = noisy(lambda step: 2 + 2 * math.exp(-step / 20), after, 0.03)
    return [*good, *(good[-1] * factor**step for step in range(1, more + 1))]


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [
        (rising(60, 15, 1.5), Verdict.PROBLEM),
        (rising(40, 40, 1.03), Verdict.PROBLEM),
        ([*rising(200, 0, 1.0), *noisy(lambda _: 10.4, 200, 0.01)], Verdict.PROBLEM),
        ([*rising(200, 0, 1.0), *noisy(lambda _: 2.9, 30, 0.03)], Verdict.WARNING),
        (noisy(lambda step: 2 * 1.05**step, 30, 0.02), Verdict.PROBLEM),
    ],
)
def test_loss_that_rises_is_found_with_its_best_and_a_lower_learning_rate(
    losses: list[float], verdict: Verdict
) -> None:
    found = divergence(facts_of({"train/loss": losses}))
    assert found.verdict is verdict
    assert "rose from" in found.evidence
    assert found.numbers["level"] is not None and found.numbers["best_level"] is not None
    assert found.numbers["level"] > found.numbers["best_level"]
    assert found.remedy == Remedy(by="clone", set={"training.learning_rate": 1e-5})


def test_loss_that_is_not_finite_is_found_at_once() -> None:
    once = divergence(facts_of({"train/loss": [2.0, None, *[2.0] * 30]}))
    assert (once.verdict, once.evidence) == (
        Verdict.WARNING, "1 of the last 32 values of the loss are not finite"
    )  # fmt: skip
    last = divergence(facts_of({"train/loss": [2.0, None]}))
    assert last.verdict is Verdict.PROBLEM and "the last one too" in last.evidence


def test_run_that_failed_for_nan_is_a_problem_with_clipping_where_that_was_off() -> None:
    reason = "optimizer step 3: the gradient of stage L1 is not finite (loss nan)"
    off = {"training.max_grad_norm": 0.0}
    found = divergence(facts_of({"train/loss": [2.0, 2.1]}, state=RunState.FAILED, reason=reason, changes=off))
    assert (found.verdict, found.evidence) == (Verdict.PROBLEM, reason)
    assert found.remedy == Remedy(by="clone", set={"training.learning_rate": 1e-5, "training.max_grad_norm": 1.0})


@pytest.mark.parametrize("scale", ["dynamic", 1024.0])
def test_float16_out_of_range_is_answered_with_bf16_which_the_spec_allows(scale: Any) -> None:
    fp16 = {"precision.compute": "fp16", "precision.loss_scale": scale}
    found = divergence(facts_of({"train/loss": [2.0, None], "train/loss_scale": [1.0, 1.0]}, changes=fp16))
    assert found.verdict is Verdict.PROBLEM
    assert found.remedy is not None and found.remedy.set["precision.compute"] == "bf16"
    parse_spec(laid_over(laid_over(SPEC, fp16), found.remedy.set))


def test_float16_that_overflows_time_and_again_is_a_warning() -> None:
    skipped = [float(step // 5) for step in range(100)]
    facts = facts_of({"train/loss": [2.0] * 100, "train/skipped_steps": skipped}, changes={"precision.compute": "fp16"})
    assert divergence(facts).verdict is Verdict.WARNING


def test_gradients_that_grow_a_hundredfold_are_a_problem_before_the_loss_shows_it() -> None:
    norms = [*noisy(lambda _: 0.8, 60, 0.3), *[200.0] * 10]
    found = divergence(facts_of({"train/loss": [2.0] * 70, "train/grad_norm": norms}))
    assert (found.verdict, "gradient norm is 200" in found.evidence) == (Verdict.PROBLEM, True)


def test_loss_that_jumps_to_and_fro_overshoots_and_one_off_by_chance_wants_more_sequences() -> None:
    swinging = [2.0 + (0.8 if step % 2 else -0.8) for step in range(100)]
    found = oscillation(facts_of({"train/loss": swinging}))
    assert found.verdict is Verdict.WARNING and "the next one down" in found.evidence
    assert found.remedy == Remedy(by="clone", set={"training.learning_rate": 1e-5})
    chance = oscillation(facts_of({"train/loss": [abs(x) for x in noisy(lambda _: 2.0, 200, 0.9)]}))
    assert chance.verdict.asks_for_something
    assert chance.remedy == Remedy(by="clone", set={"training.global_batch_size": 16})
    fixed = {"training.micro_batch_size": 2, "accumulation.steps": 4}  # the batch can't change by itself
    bound = oscillation(facts_of({"train/loss": [abs(x) for x in noisy(lambda _: 2.0, 200, 0.9)]}, changes=fixed))
    assert bound.remedy == Remedy(by="clone", set={"training.learning_rate": 1e-5})


def crawling(steps: int = 400, part: float = 0.004, fall: float = 0.04, **changes: Any) -> Finding:
    losses = noisy(lambda step: 3.0 * (1 - fall * step / steps), steps, part, steps)
    norms = noisy(lambda _: 1.2, steps, 0.2, steps)
    settings = {"training.warmup_steps": 10, **{f"training.{key}": value for key, value in changes.items()}}
    return slowness(facts_of({"train/loss": losses, "train/grad_norm": norms}, changes=settings))


def test_loss_that_crawls_down_a_straight_line_gets_a_higher_learning_rate() -> None:
    found = crawling()
    assert found.verdict is Verdict.WARNING
    assert "in 390 steps, in a straight line" in found.evidence
    assert found.remedy == Remedy(by="clone", set={"training.learning_rate": 6e-5})
    assert found.numbers["fall"] == pytest.approx(0.031, abs=0.005)


def test_loss_that_crawls_with_more_sequences_a_step_than_it_needs_gets_fewer() -> None:
    found = crawling(global_batch_size=256)
    assert found.remedy == Remedy(by="clone", set={"training.global_batch_size": 128})
    assert "256 sequences a step" in found.evidence
    assert crawling(global_batch_size=32).remedy == Remedy(by="clone", set={"training.learning_rate": 6e-5})


@pytest.mark.parametrize(
    "calm",
    [
        {"fall": 0.3},  # learns
        {"part": 0.1},  # can't be told from chance
        {"fall": -0.04},  # rises, which is another check's
        {"fall": 0.0},
    ],
)
def test_loss_that_is_not_known_to_crawl_is_left_alone(calm: dict[str, Any]) -> None:
    assert crawling(**calm).verdict is Verdict.OK


def test_slow_loss_is_not_judged_before_as_many_steps_as_its_warm_up_took() -> None:
    assert crawling(steps=205).verdict is Verdict.UNKNOWN
    assert crawling(steps=700, warmup_steps=400).evidence == (
        "300 losses were measured since the warm-up of 400 steps; 400 are needed"
    )


def test_loss_that_crawls_while_its_gradients_fade_has_found_its_place() -> None:
    losses = noisy(lambda step: 3.0 * (1 - 0.0001 * step), 400, 0.004, 400)
    norms = [2.0 * 0.99**step for step in range(400)]
    assert slowness(facts_of({"train/loss": losses, "train/grad_norm": norms})).verdict is Verdict.OK


def test_clipped_steps_are_counted() -> None:
    found = oscillation(facts_of({"train/loss": [2.0] * 60, "train/grad_norm": [0.5] * 45 + [3.0] * 15}))
    assert (found.verdict, found.numbers["clipped_share"]) == (Verdict.OK, 0.25)


def starved(steps: int = 60, *, stall: float = 0.6, knobs: dict[str, Any] | None = None, **more: Any) -> Finding:
    rates = {"hit": 0.6, "late": 0.35, "miss": 0.05, "optimal": 0.62, **more.pop("rates", {})}
    curves = {
        "time/step": [1.0] * steps, "time/stall": [stall] * steps,
        "throughput/tokens_per_second": [512.0] * steps, "transfer/host_to_device": [3.0 * GIB] * steps,
        "prefetch/hit_rate": [rates["hit"]] * steps, "prefetch/late_rate": [rates["late"]] * steps,
        "prefetch/miss_rate": [rates["miss"]] * steps, "prefetch/optimal_hit_rate": [rates["optimal"]] * steps,
    }  # fmt: skip
    known = ranges(facts_of({}).spec, PLAN, knobs or {})
    return starvation(facts_of(curves, knobs=known, **more))


def test_device_that_waits_for_late_blocks_gets_a_wider_window_while_it_runs() -> None:
    found = starved()
    assert found.verdict is Verdict.PROBLEM
    assert "waited 60% of the last 50 steps" in found.evidence and "512 tokens a step" in found.evidence
    assert "3 GiB a second came to the device" in found.evidence
    assert found.remedy == Remedy(by="knobs", set={"prefetch_window": 5})
    ended = starved(state=RunState.FINISHED)
    assert ended.remedy == Remedy(by="clone", set={"offload.prefetch_window": 5})


def test_device_that_waits_is_given_what_helps_and_what_can_be() -> None:
    gone = starved(rates={"hit": 0.4, "late": 0.1, "miss": 0.5, "optimal": 0.9})
    assert gone.remedy == Remedy(by="knobs", set={"policy": "schedule"})
    wide = starved(knobs={Knob.PREFETCH_WINDOW: 8})
    assert wide.remedy == Remedy(by="knobs", set={"max_gpu_blocks": 18})
    full = starved(knobs={Knob.PREFETCH_WINDOW: "auto", Knob.MAX_GPU_BLOCKS: 42})
    assert full.remedy == Remedy(by="clone", set={"training.global_batch_size": 16})


def test_device_is_judged_by_the_steps_since_a_knob_changed_only() -> None:
    found = starved(judged_from=50)
    assert found.verdict is Verdict.UNKNOWN
    assert found.evidence == "11 steps were timed under the knobs in force; 20 are needed"
    assert starved(judged_from=61).verdict is Verdict.UNKNOWN


def test_stall_below_a_fifth_is_fine() -> None:
    assert starved(stall=0.19).verdict is Verdict.OK
    assert starved(stall=0.21).verdict is Verdict.WARNING


def test_kernel_kill_is_a_problem_and_puts_more_on_disk() -> None:
    reason = "the worker process 7 was killed by signal 9 (SIGKILL), probably for memory"
    found = shortage(
        facts_of({}, state=RunState.INTERRUPTED, cause=Cause.OUT_OF_MEMORY, reason=reason,
                 changes={"offload.disk": "off"})
    )  # fmt: skip
    assert (found.verdict, found.evidence) == (Verdict.PROBLEM, reason)
    assert found.remedy == Remedy(by="clone", set={"offload.host_memory": "6144MiB", "offload.disk": "auto"})


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("optimizer step 1: out of memory (CUDA out of memory)", {"training.micro_batch_size": 2}),
        ("the device has no memory left for micro-batches of 4", {"training.micro_batch_size": 2}),
        ("the host tier needs 9.0 GiB, but 8.0 GiB are free", {"offload.host_memory": "6144MiB"}),
        ("the disk tier needs 9.0 GiB, but 8.0 GiB are free", {}),
    ],
)
def test_failure_for_memory_names_the_tier_that_is_to_be_smaller(reason: str, change: dict[str, Any]) -> None:
    found = shortage(facts_of({}, state=RunState.FAILED, reason=reason))
    assert found.verdict is Verdict.PROBLEM and found.fix
    assert (found.remedy.set if found.remedy else {}).items() >= change.items()
    assert (found.remedy is None) == (not change)


def test_micro_batches_that_were_halved_are_a_warning_with_what_they_came_to() -> None:
    lost = [Shortage(step=3, old=8, new=4), Shortage(step=9, old=4, new=2)]
    found = shortage(facts_of({"train/loss": [1.0] * 20}, shortages=lost))
    assert found.verdict is Verdict.WARNING and "2 times, last at step 9" in found.evidence
    assert found.remedy == Remedy(by="clone", set={"training.micro_batch_size": 2, "accumulation.steps": "auto"})


@pytest.mark.parametrize(
    ("memory", "verdict"),
    [
        (MemoryFacts(total_bytes=64 * GIB, available_bytes=20 * GIB, peak_bytes=40 * GIB), Verdict.OK),
        (MemoryFacts(total_bytes=64 * GIB, available_bytes=2 * GIB), Verdict.WARNING),
        (MemoryFacts(total_bytes=64 * GIB, peak_bytes=63 * GIB), Verdict.WARNING),
    ],
)
def test_ram_that_is_nearly_full_is_a_warning(memory: MemoryFacts, verdict: Verdict) -> None:
    assert shortage(facts_of({"train/loss": [1.0] * 20}, memory=memory)).verdict is verdict


def test_every_value_that_is_proposed_is_one_that_the_spec_takes() -> None:
    bad = {"train/loss": rising(60, 15, 1.5), "time/step": [1.0] * 75, "time/stall": [0.9] * 75}
    for state in (RunState.RUNNING, RunState.FINISHED):
        for finding in diagnose(facts_of(bad, state=state)):
            if finding.remedy is not None and finding.remedy.by == "clone":
                parse_spec(laid_over(SPEC, finding.remedy.set))
    assert set(verdicts(facts_of(bad))) == {
        "device_starved", "out_of_memory", "divergence", "oscillation", "slow_learning",
    }  # fmt: skip
