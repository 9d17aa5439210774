"""Events from a worker (and from the server about a run): a closed union, tagged by `type`."""

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.knobs import Knob, KnobStatus, KnobValue
from horizon_app.contracts.run_state import RunState

SERVER = "server"
"""Who changes a state that nobody asked for: starts the next run, ends one whose worker is gone."""
WORKER = "worker"
COMMAND_LINE = "command line"
MEMORY_RAN_OUT = "memory ran out"
"""How the message of a fact begins that tells of a step for which there was too little memory."""


def _now() -> datetime:
    return datetime.now(UTC)


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    time: datetime = Field(default_factory=_now, description="when it happened, UTC")


class StateChanged(_Event):
    """The run entered another state."""

    type: Literal["state"] = "state"
    state: RunState
    reason: str = Field(default="", description="why, in one sentence with the numbers")
    who: str = Field(
        default="",
        description="browser, api, command line, python client (or what a client calls itself), server or worker; "
        "empty in what was recorded before this was",
    )


class MetricsRecorded(_Event):
    """The numbers of one optimizer step."""

    type: Literal["metrics"] = "metrics"
    step: int = Field(ge=0, description="optimizer step, counted from 1")
    values: dict[str, float | None] = Field(description="metric key -> value; null where not finite")
    nonfinite: dict[str, Literal["nan", "inf", "-inf"]] = Field(
        default_factory=dict[str, Literal["nan", "inf", "-inf"]], description="which values were not finite, and how"
    )


class LogWritten(_Event):
    """One log line."""

    type: Literal["log"] = "log"
    level: Literal["debug", "info", "warning", "error"] = "info"
    message: str


class FactNoted(_Event):
    """Something worth keeping that has no type of its own; `kind` says what.

    Kinds: `layout` (data: a `BlockLayout`), `plan` (data: bytes per tier, resolved spec), `memory` (peaks), `data`
    (rows, tokens, fingerprint, skipped), `outcome` (data: a `RunOutcome`), `checkpoint_removed` (data: step), `resumed`
    (another worker goes on from data: step, 0 where there was no checkpoint; metrics of later steps are void),
    `skipped` (an fp16 overflow; data: step, loss_scale: the scale that overflowed), `micro_batch` (data: old, new,
    reason), `queue` (data: action, who; of a move its position and device), `archive` (data: archived, who), `fix`
    (what a check proposed was done; data: check, who, set, and `knobs`: numbers of the changes, or `run`: the clone).
    """

    type: Literal["event"] = "event"
    kind: str
    message: str
    data: dict[str, Any] = Field(default_factory=dict[str, Any])


class CheckpointWritten(_Event):
    """A checkpoint folder is complete on disk."""

    type: Literal["checkpoint"] = "checkpoint"
    step: int
    path: str = Field(description="folder, relative to the run's folder")
    bytes: int


class SampleGenerated(_Event):
    """Text that the model wrote while it trained."""

    type: Literal["sample"] = "sample"
    step: int = Field(description="optimizer steps done when it was written")
    prompt: str
    text: str = Field(description="what follows the prompt")
    num_tokens: int = Field(description="tokens generated, the end mark left out")
    ending: Literal["stop", "length", "cancelled"] = Field(
        description="stop: the model ended it; length: samples.max_new_tokens; cancelled: the run was asked to stop"
    )


class KnobChanged(_Event):
    """The worker's answer to a change of a knob that was asked for."""

    type: Literal["knobs"] = "knobs"
    number: int = Field(description="the change that it answers")
    knob: Knob
    old: KnobValue
    new: KnobValue = Field(description="the value in force now, or the one that was refused")
    step: int = Field(description="first optimizer step with the new value, or the one before which it was refused")
    who: str = Field(default="", description="who asked")
    status: Literal[KnobStatus.HOLDS, KnobStatus.REFUSED]
    message: str = Field(description="what changed from which step on, or why it was refused")


class CheckChanged(_Event):
    """A check of the run's checklist came to a verdict that asks for something, to another one, or to none any more.

    Told by the server. A check that is found fine for the first time is not told of.
    """

    type: Literal["check"] = "check"
    check: str = Field(description="id of the check, for example divergence")
    title: str
    old: Verdict
    new: Verdict
    step: int = Field(description="optimizer steps done when it was looked at")
    evidence: str = Field(description="what was found, with the numbers")
    threshold: str = Field(description="what is expected")
    fix: str = Field(description="what to do about it; empty where nothing has to be done")


Event = Annotated[
    StateChanged
    | MetricsRecorded
    | LogWritten
    | FactNoted
    | CheckpointWritten
    | SampleGenerated
    | KnobChanged
    | CheckChanged,
    Field(discriminator="type"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class PeakUse(BaseModel):
    """Highest use of each tier over a run, measured by the engine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device_blocks: int = Field(default=0, description="most slots of the arena in use at once")
    device_bytes: int = 0
    host_bytes: int = 0
    disk_bytes: int = 0
    resident_bytes: int = Field(default=0, description="peak resident memory of the worker process")


class RunOutcome(BaseModel):
    """How a run ended: the body of `horizon run --json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: RunState
    reason: str = ""
    optimizer_steps: int = 0
    metrics: dict[str, float | None] = Field(default_factory=dict[str, float | None])
    peak: PeakUse = PeakUse()
    seconds: float = 0.0


def metrics_event(step: int, values: dict[str, float]) -> MetricsRecorded:
    """The event for one step's numbers, with NaN and infinities moved to `nonfinite`."""
    flags: dict[str, Literal["nan", "inf", "-inf"]] = {}
    for key, value in values.items():
        if math.isnan(value):
            flags[key] = "nan"
        elif math.isinf(value):
            flags[key] = "inf" if value > 0 else "-inf"
    clean = {key: None if key in flags else value for key, value in values.items()}
    return MetricsRecorded(step=step, values=clean, nonfinite=flags)
