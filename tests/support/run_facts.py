"""Facts of runs for diagnoses: curves as they might have been recorded."""

from collections.abc import Mapping, Sequence
from typing import Any

from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.control.diagnosis.facts import RECENT_STEPS, Curve, RunFacts
from horizon_app.control.knob_values import ranges
from horizon_app.control.spec_changes import laid_over

SPEC: dict[str, Any] = {"model": {"path": "m"}, "data": {"path": "d"}}
PLAN = {"blocks": 40, "max_gpu_blocks": 12, "micro_batch_size": 4, "host_bytes": 8 << 30}


def facts_of(
    curves: Mapping[str, Sequence[float | None]], *, state: RunState = RunState.RUNNING,
    changes: Mapping[str, Any] | None = None, **more: Any,
) -> RunFacts:  # fmt: skip
    """A run that has measured these from its first step on; `changes` are to its spec, by dotted key."""
    asked = laid_over(SPEC, changes or {})
    spec = parse_spec(asked).model_dump(mode="json")
    steps = max((len(values) for values in curves.values()), default=0)
    whole = {key: _curve(values) for key, values in curves.items()}
    recent = {key: Curve(steps=c.steps[-RECENT_STEPS:], values=c.values[-RECENT_STEPS:]) for key, c in whole.items()}
    told: dict[str, Any] = {
        "spec": spec, "asked": asked, "plan": PLAN, "knobs": ranges(spec, PLAN, {}), "recent": recent, "history": whole,
    }  # fmt: skip
    return RunFacts(state=state, step=steps, **{**told, **more})


def _curve(values: Sequence[float | None]) -> Curve:
    return Curve(steps=range(1, len(values) + 1), values=list(values))
