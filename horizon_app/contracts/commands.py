"""Commands from the server to a worker: a closed union, tagged by `type`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from horizon_app.contracts.knobs import AskedChange


class StopRun(BaseModel):
    """Stop at the next optimizer step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["stop"] = "stop"
    save: bool = Field(default=True, description="write a checkpoint of the last step before stopping")


class SaveCheckpoint(BaseModel):
    """Write a checkpoint after the optimizer step that is being done."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["checkpoint"] = "checkpoint"


class SetKnobs(BaseModel):
    """Change knobs before the next optimizer step, in this order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["set"] = "set"
    changes: list[AskedChange] = Field(min_length=1)


Command = Annotated[StopRun | SaveCheckpoint | SetKnobs, Field(discriminator="type")]
COMMAND: TypeAdapter[Command] = TypeAdapter(Command)
