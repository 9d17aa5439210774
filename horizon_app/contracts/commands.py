"""Commands from the server to a worker: a closed union, tagged by `type`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from horizon_app.contracts.knobs import AskedChange


class StopRun(BaseModel):
    """Stop at the next optimizer step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["stop"] = "stop"
    save: bool = Field(default=True, description="write a checkpoint of the last step before stopping")


class PauseRun(BaseModel):
    """Hold after the optimizer step that is being done, with everything in memory, until told to go on or to stop."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["pause"] = "pause"
    save: bool = Field(default=False, description="write a checkpoint of that step first")
    who: str = Field(default="", description="who asked for it")


class ContinueRun(BaseModel):
    """Go on after a pause, or take back one that was asked for and does not hold yet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["continue"] = "continue"
    who: str = Field(default="", description="who asked for it")


class SaveCheckpoint(BaseModel):
    """Write a checkpoint after the optimizer step that is being done."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["checkpoint"] = "checkpoint"


class SetKnobs(BaseModel):
    """Change knobs before the next optimizer step, in this order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["set"] = "set"
    changes: list[AskedChange] = Field(min_length=1)


Command = Annotated[StopRun | PauseRun | ContinueRun | SaveCheckpoint | SetKnobs, Field(discriminator="type")]
COMMAND: TypeAdapter[Command] = TypeAdapter(Command)
