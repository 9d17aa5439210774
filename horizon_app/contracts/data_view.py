"""Data as a model would see it: what a preview shows."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.problems import FieldProblem


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class DataFileView(_View):
    """One data file and what it turned out to be."""

    path: str
    container: str = Field(description="JSON lines, JSON, CSV, Parquet or text; empty where it can't be read")
    container_reason: str = Field(description="what told the container")
    compression: str = Field(description="gzip, zstd or empty")
    formats: dict[str, str] = Field(description="format of its rows -> what told it")
    rows: int = Field(description="rows of it that can be read")


class SampleView(_View):
    """One sample as it is trained: a row, or a piece of a long text."""

    file: str
    line: int = Field(description="line in that file, counted from 1; in Parquet the row")
    piece: int = Field(description="piece of a long text, counted from 1; 0 where it is not split")
    text: str = Field(description="the text of the tokens that are shown")
    ids: list[int] = Field(description="ids of the first tokens; empty without a tokenizer")
    tokens: list[str] = Field(description="text of each of them; whole messages without a tokenizer")
    trained: list[bool] = Field(description="whether each of them counts in the loss")
    labels: list[int] = Field(description="the id where it counts, else -100; empty without a tokenizer")
    trained_spans: list[str] = Field(description="the text of each run of trained tokens")
    num_tokens: int | None = Field(description="tokens of the whole sample; null without a tokenizer")
    num_trained: int | None = Field(description="those of them that count in the loss; null without a tokenizer")


class DataPreview(_View):
    """What some data files hold."""

    format: str = Field(description="formats of the rows, joined by plus signs; empty where there is no row")
    files: list[DataFileView]
    rows: int = Field(description="rows that can be read")
    used: int | None = Field(description="rows that are trained on; null without a tokenizer")
    skipped: int | None = Field(description="rows without a token to train on; null without a tokenizer")
    dropped: int | None = Field(description="rows dropped as too long; null without a tokenizer")
    bad_rows: int = Field(description="rows that can't be used")
    num_sequences: int | None = Field(description="samples before packing; null without a tokenizer")
    num_tokens: int | None = Field(description="tokens of all samples; null without a tokenizer")
    num_trained_tokens: int | None = Field(description="those that count in the loss; null without a tokenizer")
    fingerprint: str | None = Field(
        description="as a run over this data would record it; null where it has problems or was not read to its end"
    )
    complete: bool = Field(description="whether all of the data was looked at; only the beginning of much data is")
    samples: list[SampleView]
    errors: list[FieldProblem] = Field(description="the first things wrong, by file, line and field")
    num_errors: int = Field(description="all of them")
    warnings: list[FieldProblem]


class LookAsked(BaseModel):
    """A look at some data that the server asks its process for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DataSpec
    paths: list[Path] = Field(description="real paths: those of the spec, resolved")
    tokenizer_dir: Path | None = Field(description="the model's folder; null shows the samples in words")
    most_samples: int


class LookFailed(BaseModel):
    """The process made a mistake: of the data nothing is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: str


LOOK_ANSWER: TypeAdapter[DataPreview | LookFailed] = TypeAdapter(DataPreview | LookFailed)
