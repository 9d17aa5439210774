"""`python -m tests.bench.policies`: misses of every policy as multiples of Belady's, on the standard traces."""

from dataclasses import dataclass

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.policy.choose import make_policy
from tests.support.traces import replay, standard_traces

ARENA_SHARES = (0.08, 0.15, 0.25, 0.50, 0.75)


@dataclass(frozen=True, kw_only=True, slots=True)
class MissRatios:
    """One trace in an arena of `capacity` slots, which is `share` of its blocks; `ratios`: misses ÷ optimal misses."""

    trace: str
    share: float
    capacity: int
    ratios: dict[Policy, float]


def miss_ratios() -> list[MissRatios]:
    """A row for each standard trace and arena size. Some seconds of pure Python."""
    rows: list[MissRatios] = []
    for trace in standard_traces():
        for share in ARENA_SHARES:
            capacity = round(len(trace.blocks) * share)
            optimal = trace.optimal_misses(capacity)
            ratios = {p: replay(make_policy(p, capacity), trace, capacity).misses / optimal for p in Policy}
            rows.append(MissRatios(trace=trace.name, share=share, capacity=capacity, ratios=ratios))
    return rows


def table(rows: list[MissRatios]) -> str:
    """The rows as text."""
    width = max(len(row.trace) for row in rows)
    lines = [f"{'misses ÷ optimal':{width}}  arena  " + "".join(f"{policy.value:>10}" for policy in Policy)]
    for row in rows:
        ratios = "".join(f"{row.ratios[policy]:10.2f}" for policy in Policy)
        lines.append(f"{row.trace:{width}}  {row.share:5.0%}  {ratios}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(miss_ratios()))
