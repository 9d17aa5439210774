"""A data section of a run spec, loaded: files read, chats rendered, tokens packed, batches ready to be given."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from horizon_app.contracts.run_spec import DataSpec
from horizon_app.data.batches import Batch
from horizon_app.data.encoding import Encoded, encode_rows
from horizon_app.data.errors import ProblemList, refused
from horizon_app.data.files import find_files
from horizon_app.data.origins import Origins, OriginStore
from horizon_app.data.packing import Rows, one_a_row, pack
from horizon_app.data.row_source import RowSource
from horizon_app.data.rows import Row, TextRow, read_rows
from horizon_app.data.samples import Samples, SampleStore
from horizon_app.data.tokenizer import Tokenizer, load_tokenizer

_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Everything a run trains on, as token ids in memory."""

    samples: Samples
    origins: Origins
    rows: Rows
    num_samples: int
    """Samples in the files."""
    skipped: int
    """Samples that hold nothing to train on."""
    warnings: list[str]
    """What the user should know about the data."""
    fingerprint: str
    """Digest of the tokens, their marks, the tokenizer and the options."""
    sequence_length: int
    pad_id: int
    seed: int

    @property
    def num_sequences(self) -> int:
        """Rows of exactly `sequence_length` tokens, after packing."""
        return len(self.rows)

    @property
    def num_tokens(self) -> int:
        """Tokens in all rows, padding left out."""
        return len(self.samples.ids)

    @property
    def num_trained_tokens(self) -> int:
        """Tokens that count in the loss."""
        return int(np.count_nonzero(self.samples.trained))

    def steps_of_epochs(self, epochs: float, global_batch_size: int) -> int:
        """Optimizer steps of `epochs` passes, at least one; a set smaller than a batch takes a step for each pass."""
        rows = max(self.num_sequences, global_batch_size)
        return max(1, math.ceil(epochs * rows / global_batch_size))

    def source(self, global_batch_size: int) -> RowSource:
        """The batches, by optimizer step."""
        return RowSource(
            samples=self.samples, origins=self.origins, rows=self.rows, global_batch_size=global_batch_size,
            sequence_length=self.sequence_length, pad_id=self.pad_id, seed=self.seed,
        )  # fmt: skip

    @property
    def num_eval_sequences(self) -> int:
        """None are held out: the spec refuses eval data."""
        return 0

    def eval_batches(self, sequences: int) -> Iterator[Batch]:
        """The held-out sequences."""
        return iter(())


def load_dataset(spec: DataSpec, paths: Sequence[Path], tokenizer_dir: Path) -> Dataset:
    """Load what `spec` asks for from `paths`, with the tokenizer and chat template of a model folder.

    Raises DataError with every problem found, by file and line.
    """
    problems = ProblemList()
    warnings: list[str] = []
    files = find_files(paths, problems, warnings)
    problems.raise_if_any()
    tokenizer = load_tokenizer(tokenizer_dir)
    sequences = SequenceStore(spec.sequence_length)
    for encoded in encode_rows(read_rows(files, spec.format, problems), tokenizer, spec.train_on, problems):
        if not problems.total:
            sequences.add(encoded)
    problems.raise_if_any()
    samples = sequences.finish()
    if not len(samples):
        raise refused("data.path", _nothing_left(sequences), "give rows with an assistant's answer, or text")
    if tokenizer.eos_id is None and sequences.has_text:
        warnings.append("the tokenizer has no end-of-text token, so the model does not learn where a text ends")
    pad_id = _within_model(samples, tokenizer)
    lengths: list[int] = samples.lengths.tolist()
    rows = pack(lengths, spec.sequence_length) if spec.packing else one_a_row(len(samples))
    return Dataset(
        samples=samples, origins=sequences.origins(), rows=rows, num_samples=sequences.num_samples,
        skipped=sequences.skipped.count,
        warnings=[*warnings, *sequences.warnings()], fingerprint=_fingerprint(spec, samples, tokenizer),
        sequence_length=spec.sequence_length, pad_id=pad_id, seed=spec.seed,
    )  # fmt: skip


@dataclass(slots=True)
class Places:
    """How many rows something happened to, and where the first of them are."""

    count: int = 0
    first: list[str] = field(default_factory=list[str])

    def add(self, row: Row) -> None:
        """Note one more row."""
        self.count += 1
        if len(self.first) < _MOST_NAMED:
            self.first.append(f"{Path(row.file).name}:{row.line}")

    def __str__(self) -> str:
        return ", ".join(self.first) + (" and others" if self.count > len(self.first) else "")


class SequenceStore:
    """Cuts rows to sequences: a long text becomes several, a long chat loses its end."""

    def __init__(self, sequence_length: int) -> None:
        self._length = sequence_length
        self._store = SampleStore()
        self._origins = OriginStore()
        self.num_samples = 0
        self.has_text = False
        self.skipped = Places()
        self.cut = Places()

    def add(self, encoded: Encoded) -> None:
        """Take one row."""
        self.num_samples += 1
        if isinstance(encoded.row, TextRow):
            self.has_text = True
            kept = self._add_text(encoded)
        else:
            if len(encoded.ids) > self._length:
                self.cut.add(encoded.row)
            kept = self._keep(encoded, slice(0, self._length), piece=0)
        if not kept:
            self.skipped.add(encoded.row)

    def finish(self) -> Samples:
        """All sequences. Nothing may be added after."""
        return self._store.samples()

    def origins(self) -> Origins:
        """Where each of them came from. Nothing may be added after."""
        return self._origins.origins()

    def warnings(self) -> list[str]:
        """What happened to some rows."""
        found: list[str] = []
        if self.skipped.count:
            found.append(
                f"{self.skipped.count} of {self.num_samples} samples hold no token to train on "
                f"and are skipped: {self.skipped}"
            )
        if self.cut.count:
            found.append(
                f"{self.cut.count} of {self.num_samples} samples have more than {self._length} tokens "
                f"(data.sequence_length) and are cut there: {self.cut}"
            )
        return found

    def _add_text(self, encoded: Encoded) -> bool:
        kept = False
        for piece, start in enumerate(range(0, len(encoded.ids), self._length), 1):
            # A last token alone would have nothing before it to be predicted from.
            begin = start - 1 if start and start == len(encoded.ids) - 1 else start
            number = piece if len(encoded.ids) > self._length else 0
            kept |= self._keep(encoded, slice(begin, start + self._length), piece=number)
        return kept

    def _keep(self, encoded: Encoded, part: slice, *, piece: int) -> bool:
        kept = self._store.add(encoded.ids[part], encoded.trained[part])
        if kept:
            self._origins.add(encoded.row, piece)
        return kept


def _within_model(samples: Samples, tokenizer: Tokenizer) -> int:
    """The id to pad with, after a look whether the model has an embedding for each id. Raises DataError."""
    words = tokenizer.model_vocabulary()
    if words is None:
        return tokenizer.pad_id
    largest = int(samples.ids.max())
    if largest >= words:
        raise refused(
            "model.path",
            f"the tokenizer gives the id {largest} ({tokenizer.show([largest])[0]!r}), but the model knows {words} ids",
            "take the tokenizer that belongs to the model, or resize the model's embeddings",
        )
    # A pad token that was added later often has no embedding; what stands in padding is never looked at.
    return tokenizer.pad_id if tokenizer.pad_id < words else 0


def _nothing_left(sequences: SequenceStore) -> str:
    if not sequences.num_samples:
        return "the files hold no samples"
    if sequences.cut.count:
        return (
            f"none of the {sequences.num_samples} samples has a token to train on; {sequences.cut.count} are cut "
            "before one by data.sequence_length"
        )
    return f"none of the {sequences.num_samples} samples has a token to train on"


def _fingerprint(spec: DataSpec, samples: Samples, tokenizer: Tokenizer) -> str:
    options = {
        "sequence_length": spec.sequence_length,
        "packing": spec.packing,
        "train_on": spec.train_on.value,
        "seed": spec.seed,
        "tokenizer": tokenizer.fingerprint(),
    }
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for part in (samples.ids, samples.trained, samples.starts):
        digest.update(part.tobytes())
    return digest.hexdigest()
