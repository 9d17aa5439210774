"""The first samples of some data as a model would see them, and everything that is wrong with the rest."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.data_view import DataFileView, DataPreview, SampleView
from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.spec_words import BadRows, TrainOn
from horizon_app.data.batches import IGNORE
from horizon_app.data.conversations import ASSISTANT
from horizon_app.data.dataset import fingerprint, nothing_to_train, padding_id
from horizon_app.data.encoding import encode_rows
from horizon_app.data.errors import DataError, ProblemList
from horizon_app.data.files import find_files
from horizon_app.data.reader import FileReport, RowReader
from horizon_app.data.rows import ChatRow, PairRow, Row, TextRow
from horizon_app.data.samples import SampleDigest
from horizon_app.data.sequences import Cutter, TokenSequence
from horizon_app.data.tokenizer import Tokenizer, load_tokenizer

MOST_CHARACTERS = 4 << 20
"""So much of the data is read, so that an answer comes at once; of more, a preview shows the beginning."""

MOST_ENCODED = 1 << 20
"""The same with a tokenizer, which takes longer."""

_SAMPLES = 20
_TOKENS = 512


def preview(
    paths: Sequence[Path], spec: DataSpec, *, tokenizer_dir: Path | None = None, whole: bool = False,
    most_samples: int = _SAMPLES, most_tokens: int = _TOKENS,
) -> DataPreview:  # fmt: skip
    """Read the beginning of `paths`, or the whole, and show the first samples; problems are told, not raised.

    Without a tokenizer, or where it can't be loaded, the samples are shown in words.
    """
    look = _Look(spec, most_samples, most_tokens, whole=whole)
    try:
        tokenizer = None if tokenizer_dir is None else load_tokenizer(tokenizer_dir, spec.chat_template)
    except DataError as error:
        look.refusals += error.problems
        tokenizer = None
    try:
        look.read(paths, tokenizer)
    except DataError as error:
        look.refusals += error.problems
    return look.result()


class _Look:
    """One look at some data."""

    def __init__(self, spec: DataSpec, most_samples: int, most_tokens: int, *, whole: bool) -> None:
        self.refusals: list[FieldProblem] = []
        self._spec = spec
        self._most_samples, self._most_tokens, self._whole = most_samples, most_tokens, whole
        self._problems = ProblemList(skip_rows=spec.bad_rows is BadRows.SKIP)
        self._reader = RowReader([], spec.format, self._problems)
        self._cutter = Cutter(spec.sequence_length, spec.too_long)
        self._digest = SampleDigest()
        self._samples: list[SampleView] = []
        self._sizes = [0, 0, 0]
        self._fingerprint: str | None = None
        self._tokenised = False

    def read(self, paths: Sequence[Path], tokenizer: Tokenizer | None) -> None:
        """Go through the data. Raises DataError where it can't be trained on at all."""
        files = find_files(paths, self._problems)
        most = MOST_CHARACTERS if tokenizer is None else MOST_ENCODED
        self._reader = RowReader(
            files, self._spec.format, self._problems, most_characters=None if self._whole else most
        )
        if tokenizer is None:
            for row in self._reader:
                if len(self._samples) < self._most_samples:
                    self._samples.append(_in_words(row, self._spec.train_on, self._most_tokens))
            return
        self._tokenised = True
        for encoded in encode_rows(self._reader, tokenizer, self._spec.train_on, self._problems):
            for sequence in self._cutter.cut(encoded):
                self._take(sequence, tokenizer)
        whole = self._reader.complete and not self._problems.found.total
        if whole and not self._cutter.tally.num_used:
            self._problems.add(
                nothing_to_train(self._cutter.tally), fix="give rows with an assistant's answer, or text"
            )
        elif whole:
            padding_id(self._digest.largest_id, tokenizer)
            self._fingerprint = fingerprint(self._spec, tokenizer, [self._digest.hexdigest(), ""])

    def _take(self, sequence: TokenSequence, tokenizer: Tokenizer) -> None:
        self._digest.add(sequence)
        for place, more in enumerate((1, len(sequence.ids), int(np.count_nonzero(sequence.trained)))):
            self._sizes[place] += more
        if len(self._samples) < self._most_samples:
            self._samples.append(_in_tokens(sequence, tokenizer, self._most_tokens))

    def result(self) -> DataPreview:
        """All that was seen."""
        tally, problems = self._cutter.tally, self._problems
        formats = sorted({format for report in self._reader.reports for format in report.formats})
        no_rows = not self._reader.num_rows and self._reader.complete and not problems.found.total
        if no_rows and not self.refusals:
            problems.add("the files hold no rows", fix="name files that hold some")
        counts = self._sizes if self._tokenised else [None, None, None]
        return DataPreview(
            format="+".join(formats), files=[_file(report) for report in self._reader.reports],
            rows=self._reader.num_rows, bad_rows=problems.bad_rows.total,
            used=tally.num_used if self._tokenised else None,
            skipped=tally.skipped.total if self._tokenised else None,
            dropped=tally.dropped.total if self._tokenised else None,
            num_sequences=counts[0], num_tokens=counts[1], num_trained_tokens=counts[2],
            fingerprint=None if self.refusals else self._fingerprint, complete=self._reader.complete,
            samples=self._samples, errors=[*self.refusals, *problems.found.listed],
            num_errors=len(self.refusals) + problems.found.total, warnings=self._warnings(),
        )  # fmt: skip

    def _warnings(self) -> list[FieldProblem]:
        tally, problems = self._cutter.tally, self._problems
        skipped = problems.bad_rows.listed if problems.skip_rows else []
        return [*problems.warned.listed, *skipped, *tally.skipped.listed, *tally.dropped.listed, *tally.cut.listed]


def _file(report: FileReport) -> DataFileView:
    return DataFileView(
        path=str(report.path), container=report.container, container_reason=report.container_reason,
        compression=report.compression, formats=report.formats, rows=report.num_rows,
    )  # fmt: skip


def _in_tokens(sequence: TokenSequence, tokenizer: Tokenizer, most: int) -> SampleView:
    ids: list[int] = sequence.ids[:most].tolist()
    trained: list[bool] = sequence.trained[:most].tolist()
    spans = [[token for token, _ in run] for marked, run in groupby(zip(ids, trained, strict=True), _second) if marked]
    return SampleView(
        file=sequence.row.file, line=sequence.row.line, piece=sequence.piece, text=tokenizer.decode(ids), ids=ids,
        tokens=tokenizer.show(ids), trained=trained,
        labels=[token if marked else IGNORE for token, marked in zip(ids, trained, strict=True)],
        trained_spans=[tokenizer.decode(span) for span in spans],
        num_tokens=len(sequence.ids), num_trained=int(np.count_nonzero(sequence.trained)),
    )  # fmt: skip


def _second(pair: tuple[int, bool]) -> bool:
    return pair[1]


def _in_words(row: Row, train_on: TrainOn, most: int) -> SampleView:
    """What is known without a tokenizer: whose words they are. A token has four characters, roughly."""
    parts = [(text[: 4 * most], trained or train_on is TrainOn.ALL) for text, trained in _parts(row) if text]
    return SampleView(
        file=row.file, line=row.line, piece=0, text="".join(text for text, _ in parts), ids=[],
        tokens=[text for text, _ in parts], trained=[trained for _, trained in parts], labels=[],
        trained_spans=[text for text, trained in parts if trained], num_tokens=None, num_trained=None,
    )  # fmt: skip


def _parts(row: Row) -> Iterable[tuple[str, bool]]:
    if isinstance(row, TextRow):
        return [(row.text, True)]
    if isinstance(row, PairRow):
        return [(row.prompt, False), (row.completion, True)]
    return _turns(row)


def _turns(row: ChatRow) -> Iterator[tuple[str, bool]]:
    for index, message in enumerate(row.messages):
        answers = message["role"] == ASSISTANT and index >= row.answers_from
        yield f"{message['role']}: ", False
        yield message["content"], answers
        for call in message.get("tool_calls", []):
            yield f"[{call['function']['name']} {call['function']['arguments']}]", answers
        yield "\n", False
