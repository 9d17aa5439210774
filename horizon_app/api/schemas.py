"""Bodies that only HTTP has."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.frames import Frame


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NewRunBody(_Body):
    """A run to be submitted."""

    spec: Any = Field(description="the run spec; /api/v1/spec/schema has its schema")
    start: bool = Field(default=True, description="false keeps the run out of the queue until it is started")


class ResumeBody(_Body):
    """What is to be different when a run goes on."""

    set: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description='new values of the spec by dotted key, for example {"training.optimizer_steps": 400}',
    )


class StopBody(_Body):
    """How a run is stopped."""

    save: bool = Field(default=True, description="write a checkpoint of the last step before stopping")


class EditBody(_Body):
    """New labels of a run; what is left out stays."""

    name: str | None = None
    tags: list[str] | None = None
    notes: str | None = None


class EventsAnswer(BaseModel):
    """Events of a run, in order."""

    events: list[Frame]
    last_seq: int = Field(description="place of the newest event of the run")
