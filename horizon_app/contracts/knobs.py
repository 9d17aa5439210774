"""Knobs: values of the spec that may change while the run runs, how a change is asked for, and what is told of it."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from horizon_app.contracts.spec_fields import WindowOrAuto
from horizon_app.contracts.spec_words import Policy

KnobValue = int | str
"""A number, or a word such as auto or lru."""


class Knob(StrEnum):
    """What may change between two optimizer steps: none of these changes a bit of the losses and weights."""

    PREFETCH_WINDOW = "prefetch_window"
    MAX_GPU_BLOCKS = "max_gpu_blocks"
    POLICY = "policy"
    CHECKPOINT_EVERY = "checkpoint.every"
    EVALUATION_EVERY = "evaluation.every"
    SAMPLES_EVERY = "samples.every"

    @property
    def spec_key(self) -> str:
        """The dotted key of the spec that holds its first value."""
        return self.value if "." in self.value else f"offload.{self.value}"


class KnobStatus(StrEnum):
    """What came of a change."""

    ASKED = "asked"
    """The worker has not come to it yet."""
    HOLDS = "holds"
    REFUSED = "refused"
    """It can't be in this run, or the run ended before it came to it."""


_Steps = Annotated[int, Field(strict=True, ge=0)]
_VALUES: Mapping[Knob, TypeAdapter[Any]] = {
    Knob.PREFETCH_WINDOW: TypeAdapter(WindowOrAuto),
    Knob.MAX_GPU_BLOCKS: TypeAdapter(Annotated[int, Field(strict=True, ge=1)]),
    Knob.POLICY: TypeAdapter(Policy),
    Knob.CHECKPOINT_EVERY: TypeAdapter(_Steps),
    Knob.EVALUATION_EVERY: TypeAdapter(_Steps),
    Knob.SAMPLES_EVERY: TypeAdapter(_Steps),
}


def with_knobs(spec: Mapping[str, Any], values: Mapping[Knob, Any]) -> dict[str, Any]:
    """The document of a spec with other values of knobs."""
    document: dict[str, Any] = dict(spec)
    for knob, value in values.items():
        section, _, key = knob.spec_key.partition(".")
        document[section] = {**document[section], key: value}
    return document


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AskedChange(_Frozen):
    """One change as the worker is told of it."""

    number: int = Field(ge=1, description="counts the changes of a run")
    knob: Knob
    value: KnobValue
    who: str = Field(default="", description="who asked")

    @model_validator(mode="after")
    def _takes_the_value(self) -> "AskedChange":
        _VALUES[self.knob].validate_python(self.value)
        return self


class KnobChange(_Frozen):
    """One change of a knob, as the history keeps it."""

    number: int = Field(description="counts the changes of a run")
    time: datetime = Field(description="when it was asked for, UTC")
    who: str = Field(description="who asked")
    knob: Knob
    old: KnobValue | None = Field(description="value before; null where it was not known when it was asked for")
    new: KnobValue
    status: KnobStatus
    step: int | None = Field(description="first optimizer step with the new value; null until the worker holds it")
    message: str = Field(description="why it was refused; empty otherwise")
    undoes: int | None = Field(description="number of the change that this one takes back")


class KnobRange(_Frozen):
    """One knob of a run: its value in force and what may be asked for."""

    knob: Knob
    spec_key: str = Field(description="the key of the spec that holds its first value")
    value: KnobValue | None = Field(description="in force; null where it is decided when the model is built")
    minimum: int | None = Field(default=None, description="smallest number")
    maximum: int | None = Field(default=None, description="largest number, where one is known")
    words: list[str] = Field(default_factory=list[str], description="words that are values too")
    unit: str = ""
    fixed: str = Field(default="", description="why it can't change in this run; empty where it can")


class KnobsAnswer(_Frozen):
    """The knobs of a run, and what was changed."""

    knobs_version: int = Field(description="number of the newest change that was asked for; 0 where there is none")
    knobs: list[KnobRange]
    changes: list[KnobChange] = Field(description="all of the run, oldest first")


class ChangedKnobs(_Frozen):
    """What came of changes that were asked for."""

    knobs_version: int = Field(description="to be sent as If-Match with the next change")
    changes: list[KnobChange]
