"""Turns and tables: variants take turns round by round, ratios are taken within a round, then medians over rounds."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.bench.processes import Measured, Missing, Result, Variant, run_variant
from tests.bench.work import Work

GIB = 1 << 30
WARM_UP_STEPS = 2
"""The engine's first update comes with its second step, and touches the moments for the first time, which is slow."""
Write = Callable[[str], object]
Numerator = Callable[["Round"], float | None]


@dataclass(kw_only=True, slots=True)
class Round:
    """What one round gave: a result by variant, and the roofs that were measured beside them."""

    results: dict[str, Result] = field(default_factory=dict[str, Result])
    roofs: dict[str, float] = field(default_factory=dict[str, float])

    def speed(self, variant: str) -> float | None:
        """Tokens a second, where the variant could be measured."""
        result = self.results.get(variant)
        return result.tokens_per_second if isinstance(result, Measured) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A ratio that is taken in every round, and what it should reach."""

    name: str
    top: str
    bottom: str | Numerator
    goal: float | None = None

    def of(self, one: Round) -> float | None:
        """The ratio in a round; None where a part of it could not be measured."""
        top = one.speed(self.top)
        bottom = one.speed(self.bottom) if isinstance(self.bottom, str) else self.bottom(one)
        return top / bottom if top and bottom else None


def take_turns(
    variants: Sequence[Variant],
    work: Work,
    *,
    rounds: int,
    steps: int,
    write: Write,
    before: Callable[[], dict[str, float]] = dict,
) -> list[Round]:
    """Measure every variant once a round, every other round in reverse; `before` measures roofs beside them.

    A variant that could not be measured is not tried again.
    """
    done: list[Round] = []
    gone: dict[str, Missing] = {}
    for number in range(rounds):
        one = Round(roofs=before())
        for variant in variants if number % 2 == 0 else list(reversed(variants)):
            result = gone.get(variant.name) or run_variant(variant, work, warm_up=WARM_UP_STEPS, steps=steps)
            if isinstance(result, Missing):
                gone[variant.name] = result
            one.results[variant.name] = result
        done.append(one)
        speeds = ", ".join(f"{v.name} {one.speed(v.name) or 0:.0f}" for v in variants)
        write(f"  round {number + 1} of {rounds}, tokens/s: {speeds}\n")
    return done


def variant_table(variants: Sequence[Variant], rounds: Sequence[Round]) -> Iterable[str]:
    """A line for each variant: tokens/s and peak memory, or why it is missing."""
    yield f"  {'variant':<34} {'tokens/s: median':>17} {'min':>7} {'max':>7} {'peak':>10}\n"
    for variant in variants:
        results = [one.results[variant.name] for one in rounds]
        measured = [result for result in results if isinstance(result, Measured)]
        missing = next((result for result in results if isinstance(result, Missing)), None)
        if missing is not None:
            yield f"  {variant.name:<34} not available: {missing.reason}\n"
            continue
        speeds = [result.tokens_per_second for result in measured]
        peak = max(result.peak_bytes for result in measured) / GIB
        yield (
            f"  {variant.name:<34} {statistics.median(speeds):>17.1f} {min(speeds):>7.1f} {max(speeds):>7.1f}"
            f" {peak:>6.2f} GiB\n"
        )


def ratio_table(comparisons: Sequence[Comparison], rounds: Sequence[Round]) -> Iterable[str]:
    """A line for each ratio: its median over the rounds, the least and the most, and its goal."""
    yield f"  {'ratio in one round':<52} {'median':>6} {'min':>6} {'max':>6}\n"
    for comparison in comparisons:
        yield ratio_line(comparison.name, [comparison.of(one) for one in rounds], comparison.goal)


def ratio_line(name: str, ratios: Sequence[float | None], goal: float | None) -> str:
    """One line of a table of ratios."""
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return f"  {name:<52} not measured\n"
    middle = statistics.median(known)
    verdict = (
        "" if goal is None else f"  goal {goal:g}: {'reached' if middle >= goal else f'{middle / goal:.0%} of it'}"
    )
    return f"  {name:<52} {middle:>6.2f} {min(known):>6.2f} {max(known):>6.2f}{verdict}\n"


def raw(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """The figures of every round, for `--json`."""
    return [
        {
            "roofs": one.roofs,
            "results": {
                name: {"missing": result.reason}
                if isinstance(result, Missing)
                else {
                    "tokens_per_second": result.tokens_per_second,
                    "seconds": result.seconds,
                    "peak_bytes": result.peak_bytes,
                    "facts": dict(result.facts),
                }
                for name, result in one.results.items()
            },
        }
        for one in rounds
    ]
