"""The first samples of some data as a model would see them, and everything that is wrong with the rest."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_spec import DataFormat, TrainOn
from horizon_app.data.chat import ASSISTANT
from horizon_app.data.encoding import encode_rows
from horizon_app.data.errors import DataError, ProblemList, refused
from horizon_app.data.files import find_files
from horizon_app.data.rows import Row, TextRow, read_rows
from horizon_app.data.tokenizer import load_tokenizer

_SAMPLES = 3
_TOKENS = 512
_READABLE = (DataFormat.AUTO, DataFormat.MESSAGES, DataFormat.TEXT)


class SampleView(BaseModel):
    """One sample."""

    model_config = ConfigDict(frozen=True)

    file: str
    line: int = Field(description="line in that file, counted from 1")
    tokens: list[tuple[str, bool]] = Field(
        description="the first tokens as text, each with whether it is trained; whole messages without a tokenizer"
    )
    num_tokens: int | None = Field(description="tokens of the whole sample; null without a tokenizer")
    num_trained: int | None = Field(description="tokens of it that count in the loss; null without a tokenizer")


class DataPreview(BaseModel):
    """What some data files hold."""

    model_config = ConfigDict(frozen=True)

    format: str = Field(description="messages, text, or both joined by a plus sign; empty where there is no row")
    files: list[str]
    num_rows: int = Field(description="rows that can be read")
    samples: list[SampleView]
    problems: list[FieldProblem]
    num_problems: int = Field(description="all of them; `problems` lists the first")
    warnings: list[str]


def preview(
    paths: Sequence[Path], format: DataFormat = DataFormat.AUTO, *, tokenizer_dir: Path | None = None,
    train_on: TrainOn = TrainOn.COMPLETIONS, most_samples: int = _SAMPLES, most_tokens: int = _TOKENS,
) -> DataPreview:  # fmt: skip
    """Read all of `paths`, and show the first samples; problems are told, not raised."""
    problems = ProblemList()
    warnings: list[str] = []
    files: list[Path] = []
    first: list[Row] = []
    formats: set[str] = set()
    num_rows = 0
    samples: list[SampleView] = []
    refusals: list[FieldProblem] = []
    try:
        _require_readable(format)
        files = find_files(paths, problems, warnings)
        for row in read_rows(files, format, problems):
            num_rows += 1
            formats.add((DataFormat.TEXT if isinstance(row, TextRow) else DataFormat.MESSAGES).value)
            if len(first) < most_samples:
                first.append(row)
        if tokenizer_dir is None:
            samples = [_words(row, train_on, most_tokens) for row in first]
        else:
            samples = _tokens(first, tokenizer_dir, train_on, problems, most_tokens)
    except DataError as error:
        refusals = error.problems
    return DataPreview(
        format="+".join(sorted(formats)), files=[str(path) for path in files], num_rows=num_rows, samples=samples,
        problems=[*refusals, *problems.problems], num_problems=len(refusals) + problems.total, warnings=warnings,
    )  # fmt: skip


def _require_readable(format: DataFormat) -> None:
    if format not in _READABLE:
        words = ", ".join(known.value for known in _READABLE)
        raise refused("data.format", f"the format {format.value} is not available yet", f"use one of {words}")


def _tokens(
    rows: Sequence[Row], tokenizer_dir: Path, train_on: TrainOn, problems: ProblemList, most: int
) -> list[SampleView]:
    tokenizer = load_tokenizer(tokenizer_dir)
    views: list[SampleView] = []
    for encoded in encode_rows(rows, tokenizer, train_on, problems):
        trained = encoded.trained.copy()
        trained[:1] = False  # nothing comes before it that it could be predicted from
        shown = zip(encoded.ids[:most].tolist(), trained[:most].tolist(), strict=True)
        views.append(
            SampleView(
                file=encoded.row.file, line=encoded.row.line, num_tokens=len(trained), num_trained=int(trained.sum()),
                tokens=[(tokenizer.show(token), is_trained) for token, is_trained in shown],
            )
        )  # fmt: skip
    return views


def _words(row: Row, train_on: TrainOn, most: int) -> SampleView:
    """What is known without a tokenizer: whose words they are. A token has four characters, roughly."""
    if isinstance(row, TextRow):
        parts = [(row.text[: 4 * most], True)]
    else:
        parts: list[tuple[str, bool]] = []
        for message in row.messages:
            answers = train_on is TrainOn.ALL or message["role"] == ASSISTANT
            parts += [(f"{message['role']}: ", False), (message["content"][: 4 * most], answers), ("\n", False)]
    return SampleView(file=row.file, line=row.line, tokens=parts, num_tokens=None, num_trained=None)
