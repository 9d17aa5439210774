"""Bodies that only HTTP has."""

from collections.abc import Iterable
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from horizon_app.contracts.frames import Frame
from horizon_app.contracts.generation import TextAsked
from horizon_app.contracts.spec_words import BadRows, ChatTemplate, DataFormat, TooLong, TrainOn

_DEEPEST = 32


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _shallow(value: object) -> object:
    """Refuses what is nested deeper than any spec, before something walks through it level by level."""
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return value
    raise ValueError(f"nested deeper than {_DEEPEST} levels")


def _inside(outer: object) -> Iterable[object]:
    if isinstance(outer, dict):
        return cast(dict[str, object], outer).values()
    return cast(list[object], outer) if isinstance(outer, list) else ()


Document = Annotated[Any, BeforeValidator(_shallow)]
"""Anything that JSON can say, within reason."""
Values = Annotated[dict[str, Any], BeforeValidator(_shallow)]
"""New values by name."""


class NewRunBody(_Body):
    """A run to be submitted."""

    spec: Document = Field(description="the run spec; /api/v1/spec/schema has its schema")
    start: bool = Field(
        default=True, strict=True, description="false keeps the run out of the queue until it is started"
    )


class ResumeBody(_Body):
    """What is to be different when a run goes on."""

    set: Values = Field(
        default_factory=dict[str, Any],
        description='new values of the spec by dotted key, for example {"training.optimizer_steps": 400}',
    )


class MoveBody(_Body):
    """The new place of a queued run: exactly one of the two."""

    before: str | None = Field(default=None, description="the queued run to stand right before; null: behind all")
    position: int | None = Field(
        default=None, ge=1, strict=True, description="place in the queue of its device, from 1"
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> "MoveBody":
        if ("before" in self.model_fields_set) == (self.position is not None):
            raise ValueError('name the new place in one way: {"before": id}, {"before": null} or {"position": 1}')
        return self


class CloneBody(_Body):
    """What is to be different in the new run."""

    set: Values = Field(
        default_factory=dict[str, Any],
        description='new values of the spec by dotted key, for example {"training.learning_rate": 1e-4}',
    )
    name: str | None = Field(default=None, description="the new run's name; that of the spec where left out")
    start: bool = Field(default=True, strict=True, description="false keeps the run from starting until it is released")


class StopBody(_Body):
    """How a run is stopped."""

    save: bool = Field(default=True, strict=True, description="write a checkpoint of the last step before stopping")


class PauseBody(_Body):
    """How a run is paused."""

    save: bool = Field(default=False, strict=True, description="write a checkpoint of the step first")


class ApplyBody(_Body):
    """How the fix of a check is applied."""

    start: bool = Field(
        default=False, strict=True, description="whether a new run may start at once; it is held until then"
    )


class UndoBody(_Body):
    """Which change of a knob is taken back."""

    number: int | None = Field(default=None, ge=1, description="the newest that was not taken back, where left out")


class EditBody(_Body):
    """New labels of a run; what is left out stays."""

    name: str | None = Field(default=None, description="shown in the history")
    tags: list[str] | None = Field(default=None, description="words to filter by, in place of all there were")
    notes: str | None = Field(default=None, description="free text")


class GenerateBody(TextAsked):
    """What a model is asked over HTTP."""

    stream: bool = Field(default=False, strict=True, description="answer token by token, as server-sent events")


class PreviewQuery(_Body):
    """Which data is shown, and how: keys of the spec's data section."""

    path: list[str] = Field(min_length=1, description="files or folders, as in the spec; may be repeated")
    tokenizer: str | None = Field(default=None, description="model folder whose tokenizer and template are used")
    format: DataFormat = Field(default=DataFormat.AUTO, description="shape of the rows")
    chat_template: ChatTemplate = Field(default=ChatTemplate.TOKENIZER, description="how conversations become text")
    sequence_length: int | None = Field(default=None, description="tokens; the spec's default where left out")
    train_on: TrainOn = Field(default=TrainOn.COMPLETIONS, description="which tokens count in the loss")
    too_long: TooLong = Field(default=TooLong.TRUNCATE, description="what becomes of samples longer than a sequence")
    bad_rows: BadRows = Field(default=BadRows.REFUSE, description="what becomes of rows that can't be used")
    samples: int = Field(default=20, ge=0, le=1000, description="most samples to show")


class EventsAnswer(BaseModel):
    """Events of a run, in order."""

    events: list[Frame]
    last_seq: int = Field(description="place of the newest event of the run")
