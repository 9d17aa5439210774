"""The first samples of data files as a model will see them: tokens, which of them are trained on, and what is wrong."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_spec import DataFormat, TrainOn
from horizon_app.data.encoding import Encoded, encode_rows
from horizon_app.data.errors import DataError, ProblemList
from horizon_app.data.files import find_files
from horizon_app.data.rows import ChatRow, Row, read_rows
from horizon_app.data.tokenizer import Tokenizer, load_tokenizer

SHOWN = 5
_MOST_TOKENS = 512
_MOST_CHARACTERS = 2000


class TokenPreview(BaseModel):
    """One token of a sample."""

    model_config = ConfigDict(frozen=True)

    id: int
    text: str
    trained: bool = Field(description="whether it counts in the loss")


class SamplePreview(BaseModel):
    """One of the first samples."""

    model_config = ConfigDict(frozen=True)

    file: str
    line: int
    text: str = Field(description="its start; a chat's turns one after the other, where there is no tokenizer")
    num_tokens: int | None = Field(description="null where no tokenizer is given")
    num_trained_tokens: int | None = Field(description="null where no tokenizer is given")
    tokens: list[TokenPreview] = Field(description="the first tokens; empty where no tokenizer is given")


class DataPreview(BaseModel):
    """What data files hold."""

    model_config = ConfigDict(frozen=True)

    files: list[str]
    format: DataFormat | None = Field(description="detected format; null where no row could be read or several occur")
    rows: int = Field(description="rows that can be used, trained on or not")
    skipped: int = Field(description="rows without a token to train on; counted with a tokenizer only")
    samples: list[SamplePreview]
    warnings: list[str]
    errors: list[FieldProblem] = Field(description="what keeps the data from being trained on, by file and line")
    num_errors: int = Field(description="how many there are; `errors` lists the first ones")


@dataclass(slots=True)
class _Seen:
    formats: set[DataFormat] = field(default_factory=set[DataFormat])
    rows: int = 0
    skipped: int = 0
    samples: list[SamplePreview] = field(default_factory=list[SamplePreview])


def preview(
    paths: Sequence[Path],
    format: DataFormat = DataFormat.AUTO,
    tokenizer_dir: Path | None = None,
    train_on: TrainOn = TrainOn.COMPLETIONS,
    shown: int = SHOWN,
) -> DataPreview:
    """Read all of the files and show the first samples. Never raises DataError: problems stand in the answer."""
    problems, warnings, seen = ProblemList(), list[str](), _Seen()
    files = find_files(paths, problems, warnings)
    rows = _counted(read_rows(files, format, problems), seen)
    extra: list[FieldProblem] = []
    try:
        if tokenizer_dir is None:
            _show_rows(rows, seen, shown)
        else:
            _show_tokens(rows, seen, tokenizer_dir, train_on, problems, shown)
    except DataError as error:
        extra = error.problems
    if seen.skipped:
        warnings.append(f"{seen.skipped} of {seen.rows} samples hold no token to train on and will be skipped")
    return DataPreview(
        files=[str(path) for path in files],
        format=next(iter(seen.formats)) if len(seen.formats) == 1 else None,
        rows=seen.rows,
        skipped=seen.skipped,
        samples=seen.samples,
        warnings=warnings,
        errors=[*extra, *problems.problems],
        num_errors=problems.total + len(extra),
    )


def _counted(rows: Iterator[Row], seen: _Seen) -> Iterator[Row]:
    for row in rows:
        seen.rows += 1
        seen.formats.add(DataFormat.MESSAGES if isinstance(row, ChatRow) else DataFormat.TEXT)
        yield row


def _show_rows(rows: Iterable[Row], seen: _Seen, shown: int) -> None:
    for row in rows:
        if len(seen.samples) < shown:
            turns = [f"{m['role']}: {m['content']}" for m in row.messages] if isinstance(row, ChatRow) else [row.text]
            sample = SamplePreview(
                file=row.file, line=row.line, text="\n".join(turns)[:_MOST_CHARACTERS], num_tokens=None,
                num_trained_tokens=None, tokens=[],
            )  # fmt: skip
            seen.samples.append(sample)


def _show_tokens(
    rows: Iterable[Row], seen: _Seen, folder: Path, train_on: TrainOn, problems: ProblemList, shown: int
) -> None:
    tokenizer = load_tokenizer(folder)
    seen_before = seen.rows
    used = 0
    for encoded in encode_rows(rows, tokenizer, train_on, problems):
        used += 1
        num_trained = int(encoded.trained[1:].sum())
        seen.skipped += num_trained == 0
        if len(seen.samples) < shown:
            seen.samples.append(_sample(encoded, num_trained, tokenizer))
    seen.rows = seen_before + used  # without the rows that the chat template refuses


def _sample(encoded: Encoded, num_trained: int, tokenizer: Tokenizer) -> SamplePreview:
    marks = [False, *(bool(trained) for trained in encoded.trained[1:_MOST_TOKENS])]
    tokens = [
        TokenPreview(id=int(number), text=tokenizer.show(int(number)), trained=trained)
        for number, trained in zip(encoded.ids[:_MOST_TOKENS], marks, strict=False)
    ]
    return SamplePreview(
        file=encoded.row.file, line=encoded.row.line, text="".join(token.text for token in tokens)[:_MOST_CHARACTERS],
        num_tokens=len(encoded.ids), num_trained_tokens=num_trained, tokens=tokens,
    )  # fmt: skip
