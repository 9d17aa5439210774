"""The first samples of some data as a model would see them, and everything that is wrong with the rest."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_spec import DataFormat, TrainOn
from horizon_app.data.chat import ASSISTANT
from horizon_app.data.encoding import Encoded, encode_rows
from horizon_app.data.errors import DataError, ProblemList, refused
from horizon_app.data.files import find_files
from horizon_app.data.rows import Row, TextRow, read_rows
from horizon_app.data.tokenizer import Tokenizer, load_tokenizer

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
    seen = _Seen()
    refusals: list[FieldProblem] = []
    try:
        _require_readable(format)
        files = find_files(paths, problems, warnings)
        rows = seen.counted(read_rows(files, format, problems))
        if tokenizer_dir is None:
            for row in rows:
                if len(seen.samples) < most_samples:
                    seen.samples.append(_words(row, train_on, most_tokens))
        else:
            tokenizer = load_tokenizer(tokenizer_dir)
            for encoded in encode_rows(rows, tokenizer, train_on, problems):
                seen.num_without_trained += not encoded.trained[1:].any()
                if len(seen.samples) < most_samples:
                    seen.samples.append(_tokens(encoded, tokenizer, most_tokens))
    except DataError as error:
        refusals = error.problems
    if seen.num_without_trained:
        warnings.append(f"{seen.num_without_trained} of {seen.num_rows} rows hold no token to train on")
    return DataPreview(
        format="+".join(sorted(seen.formats)), files=[str(path) for path in files], num_rows=seen.num_rows,
        samples=seen.samples, problems=[*refusals, *problems.problems], num_problems=len(refusals) + problems.total,
        warnings=warnings,
    )  # fmt: skip


@dataclass(slots=True)
class _Seen:
    """What came by."""

    formats: set[str] = field(default_factory=set[str])
    num_rows: int = 0
    num_without_trained: int = 0
    samples: list[SampleView] = field(default_factory=list[SampleView])

    def counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self.num_rows += 1
            self.formats.add((DataFormat.TEXT if isinstance(row, TextRow) else DataFormat.MESSAGES).value)
            yield row


def _require_readable(format: DataFormat) -> None:
    if format not in _READABLE:
        words = ", ".join(known.value for known in _READABLE)
        raise refused("data.format", f"the format {format.value} is not available yet", f"use one of {words}")


def _tokens(encoded: Encoded, tokenizer: Tokenizer, most: int) -> SampleView:
    trained = encoded.trained.copy()
    trained[:1] = False  # nothing comes before it that it could be predicted from
    return SampleView(
        file=encoded.row.file, line=encoded.row.line, num_tokens=len(trained), num_trained=int(trained.sum()),
        tokens=list(zip(tokenizer.show(encoded.ids[:most].tolist()), trained[:most].tolist(), strict=True)),
    )  # fmt: skip


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
