"""The checklist of a run: what was found, what can be done about it by a machine, and what was done."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.checks import Check, Verdict
from horizon_app.contracts.knobs import ChangedKnobs
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import RunDetail


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class Remedy(_View):
    """What a machine can do about a check."""

    by: Literal["knobs", "clone"] = Field(
        description="knobs: they change while the run runs; clone: a new run begins with a changed spec"
    )
    set: dict[str, Any] = Field(description="new values, by knob, or by dotted key of the spec")


class Finding(Check):
    """A check of a run, as the run stands after a step."""

    step: int = Field(description="optimizer steps done when it was looked at")
    numbers: dict[str, float | None] = Field(description="what was measured, by name; null where it was not finite")
    remedy: Remedy | None = Field(default=None, description="null where nothing has to be done, or only people can")


class RunCheck(Finding):
    """A check of a run, with what is known of its verdict's past."""

    since: datetime | None = Field(description="when it came to this verdict; null where nobody kept it")
    since_step: int | None = Field(description="optimizer steps done at that time")
    changes: int = Field(description="how often its verdict has changed")


class RunChecks(_View):
    """The checklist of a run."""

    run_id: str
    state: RunState
    verdict: Verdict = Field(description="that of the worst check")
    checks: list[RunCheck]


class AppliedFix(_View):
    """What was done about a check: one of `knobs` and `run` is there."""

    check: str
    remedy: Remedy
    knobs: ChangedKnobs | None = Field(default=None, description="what came of the changed knobs until now")
    run: RunDetail | None = Field(default=None, description="the new run with the changed spec")
