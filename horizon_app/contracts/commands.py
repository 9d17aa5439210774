"""Commands from the server to a worker: a closed union, tagged by `type`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class StopRun(BaseModel):
    """Stop at the next optimizer step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["stop"] = "stop"
    save: bool = Field(default=True, description="write the model of the last step before stopping")


Command = Annotated[StopRun, Field(discriminator="type")]
COMMAND: TypeAdapter[StopRun] = TypeAdapter(StopRun)
