"""The run spec's data section: what a run is trained on."""

from pydantic import Field, field_validator, model_validator

from horizon_app.contracts.spec_fields import Section, knob
from horizon_app.contracts.spec_words import BadRows, ChatTemplate, DataFormat, TooLong, TrainOn


class DataSpec(Section):
    """What it is trained on."""

    path: str | list[str] = Field(
        description="a file, a list of files, or a folder; relative to the spec file, or to the home folder over REST",
        json_schema_extra={"x-unit": "", "x-main": True, "x-live": False, "x-unavailable": []},
    )
    format: DataFormat = knob(DataFormat.AUTO, "shape of the rows; auto looks at the content")
    chat_template: ChatTemplate = knob(
        ChatTemplate.TOKENIZER,
        "how conversations become text; a model without a template of its own needs one of the others",
    )
    eval_path: str | list[str] | None = knob(None, "data for the eval loss: a file, a list of files, or a folder")
    eval_fraction: float = knob(
        0.0,
        "share of the samples kept for the eval loss; which they are depends on their content alone",
        ge=0.0,
        lt=1.0,
    )
    sequence_length: int = knob(512, "tokens per sequence", unit="tokens", ge=2, le=1 << 20, main=True)
    packing: bool = knob(True, "put several samples into one sequence; none attends to another")
    train_on: TrainOn = knob(
        TrainOn.COMPLETIONS,
        "completions trains on the assistant's words only; plain text is always trained whole",
        main=True,
    )
    too_long: TooLong = knob(
        TooLong.TRUNCATE,
        "conversations and answers longer than a sequence are cut there, or dropped and counted; a long text is split",
    )
    bad_rows: BadRows = knob(
        BadRows.REFUSE, "rows that can't be used keep the run from starting, or are skipped, counted and listed"
    )
    shuffle: bool = knob(True, "each epoch in an order of its own; false keeps the order of the files")
    seed: int = knob(0, "seed of the order of the samples", ge=0, lt=1 << 63)

    @field_validator("path", "eval_path")
    @classmethod
    def _not_empty(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value is not None and (not value or (isinstance(value, list) and not all(value))):
            raise ValueError("no file named; write a path or a list of paths")
        return value

    @model_validator(mode="after")
    def _one_eval(self) -> "DataSpec":
        if self.eval_path is not None and self.eval_fraction:
            raise ValueError("eval_path and eval_fraction are both given; keep one")
        return self
