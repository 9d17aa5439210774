"""Several runs side by side: their curves over one axis, where their specs differ, and how each has done."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.run_state import RunState


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class Axis(StrEnum):
    """What compared curves are drawn over."""

    STEP = "step"
    TOKENS = "tokens"
    SECONDS = "seconds"


class ComparedRun(_View):
    """One run in a few numbers."""

    id: str
    name: str
    state: RunState
    reason: str
    model: str
    device: str | None
    started_at: datetime | None
    duration_s: float | None = Field(
        description="seconds that it has had a worker, until now or until it last told something"
    )
    step: int = Field(description="optimizer steps done")
    total_steps: int | None
    best_loss: float | None = Field(description="lowest train/loss")
    best_loss_step: int | None = Field(description="optimizer step of the lowest train/loss")
    last_loss: float | None = Field(description="newest train/loss; null where it was not finite")
    best_eval_loss: float | None = Field(description="lowest eval/loss")
    tokens_per_second: float | None = Field(description="newest throughput/tokens_per_second")
    metrics: dict[str, float | None] = Field(description="last value of each metric; null where it was not finite")


class ComparedSeries(_View):
    """One metric of one run."""

    step: list[int] = Field(description="optimizer steps")
    x: list[float] = Field(description="the same places on the axis that was asked for")
    y: list[float | None] = Field(description="values; null where not finite")


class SpecDifference(_View):
    """One key of the spec that is not the same in all runs."""

    key: str = Field(description="dotted key, for example offload.policy")
    values: dict[str, Any] = Field(description="run id -> value; a run whose spec has no such key is left out")


class Comparison(_View):
    """Several runs side by side, in the order in which they were named."""

    runs: list[ComparedRun]
    axis: Axis
    series: dict[str, dict[str, ComparedSeries]] = Field(description="metric key -> run id -> points")
    nonfinite: dict[str, dict[str, list[tuple[int, Literal["nan", "inf", "-inf"]]]]] = Field(
        description="metric key -> run id -> steps at which it was not finite, and how"
    )
    differences: list[SpecDifference] = Field(
        description="keys of the specs, defaults filled in, that are not the same in all; without name, tags and notes"
    )
