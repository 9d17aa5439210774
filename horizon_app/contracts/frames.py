"""What a viewer of runs receives as text: a run's events with their place in its stream, snapshots, changed runs."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from horizon_app.contracts.events import (
    CheckChanged,
    CheckpointWritten,
    FactNoted,
    KnobChanged,
    LogWritten,
    MetricsRecorded,
    SampleGenerated,
    StateChanged,
)
from horizon_app.contracts.run_view import Run

_SEQ = "place in the run's stream; rises by one and outlives a server restart"


class StateFrame(StateChanged):
    """A change of state, as streamed."""

    seq: int = Field(description=_SEQ)


class MetricsFrame(MetricsRecorded):
    """The numbers of one optimizer step, as streamed."""

    seq: int = Field(description=_SEQ)


class LogFrame(LogWritten):
    """A log line, as streamed."""

    seq: int = Field(description=_SEQ)


class FactFrame(FactNoted):
    """A fact, as streamed."""

    seq: int = Field(description=_SEQ)


class CheckpointFrame(CheckpointWritten):
    """A checkpoint, as streamed."""

    seq: int = Field(description=_SEQ)


class SampleFrame(SampleGenerated):
    """Text that the model wrote while it trained, as streamed."""

    seq: int = Field(description=_SEQ)


class KnobFrame(KnobChanged):
    """A changed knob, as streamed."""

    seq: int = Field(description=_SEQ)


class CheckFrame(CheckChanged):
    """A check whose verdict changed, as streamed."""

    seq: int = Field(description=_SEQ)


Frame = Annotated[
    StateFrame | MetricsFrame | LogFrame | FactFrame | CheckpointFrame | SampleFrame | KnobFrame | CheckFrame,
    Field(discriminator="type"),
]
FRAME: TypeAdapter[Frame] = TypeAdapter(Frame)


class SnapshotFrame(BaseModel):
    """The first frame of a stream that was opened without `after`: the run as it is, up to `seq`."""

    model_config = ConfigDict(frozen=True)

    type: Literal["snapshot"] = "snapshot"
    seq: int = Field(description="the events up to this one are contained in the run's fields")
    time: datetime
    run: Run


class RunFrame(BaseModel):
    """A frame of the stream over all runs: one whose state or step changed."""

    model_config = ConfigDict(frozen=True)

    type: Literal["run"] = "run"
    time: datetime = Field(description="the server's clock; as `since`, it brings what changed after it")
    run: Run


class RunGone(BaseModel):
    """A frame of the stream over all runs: one that was deleted."""

    model_config = ConfigDict(frozen=True)

    type: Literal["gone"] = "gone"
    time: datetime
    id: str


class ResidencyWish(BaseModel):
    """What a viewer may send: how many residency frames a second it wants at most."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    residency_hz: float = Field(ge=0.0, le=60.0)
