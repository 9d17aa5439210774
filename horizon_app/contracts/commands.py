"""Commands from the server to a worker: a closed union, tagged by `type`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from horizon_app.contracts.spec_fields import WindowOrAuto
from horizon_app.contracts.spec_words import Policy


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
    """Change knobs before the next optimizer step; those left out keep their value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["set"] = "set"
    prefetch_window: WindowOrAuto | None = Field(default=None, description="compute steps ahead, or auto")
    max_gpu_blocks: int | None = Field(default=None, ge=1, description="slots in the arena")
    policy: Policy | None = Field(default=None, description="which block leaves a full tier")

    @model_validator(mode="after")
    def _something(self) -> "SetKnobs":
        if self.prefetch_window is None and self.max_gpu_blocks is None and self.policy is None:
            raise ValueError("no knob is named; give prefetch_window, max_gpu_blocks or policy")
        return self


Command = Annotated[StopRun | PauseRun | ContinueRun | SaveCheckpoint | SetKnobs, Field(discriminator="type")]
COMMAND: TypeAdapter[Command] = TypeAdapter(Command)
