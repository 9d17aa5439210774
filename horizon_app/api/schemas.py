"""Bodies that only HTTP has."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.frames import Frame
from horizon_app.contracts.generation import TextAsked


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NewRunBody(_Body):
    """A run to be submitted."""

    spec: Any = Field(description="the run spec; /api/v1/spec/schema has its schema")
    start: bool = Field(default=True, description="false keeps the run out of the queue until it is started")


class StopBody(_Body):
    """How a run is stopped."""

    save: bool = Field(default=True, description="write the model of the last step before stopping")


class EditBody(_Body):
    """New labels of a run; what is left out stays."""

    name: str | None = None
    tags: list[str] | None = None
    notes: str | None = None


class GenerateBody(TextAsked):
    """What a model is asked over HTTP."""

    stream: bool = Field(default=False, description="answer token by token, as server-sent events")


class EventsAnswer(BaseModel):
    """Events of a run, in order."""

    events: list[Frame]
    last_seq: int = Field(description="place of the newest event of the run")
