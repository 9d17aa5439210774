"""A data section of a run spec, loaded: files read, chats rendered, tokens packed, batches ready to be given."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.spec_words import BadRows
from horizon_app.data.batches import Batch
from horizon_app.data.cache import TokenCache
from horizon_app.data.encoding import encode_rows
from horizon_app.data.errors import DataStopped, Findings, ProblemList, counted, problem_text, refused
from horizon_app.data.files import find_files
from horizon_app.data.packing import Rows, one_a_row, pack
from horizon_app.data.reader import RowReader
from horizon_app.data.row_source import RowSource, steps_of_epoch
from horizon_app.data.samples import Samples, SampleWriter
from horizon_app.data.sequences import Cutter, Tally
from horizon_app.data.split import split
from horizon_app.data.tokenizer import Tokenizer, load_tokenizer

_MOST_WARNINGS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Everything a run trains on, and what it is evaluated with. The token ids stay in files."""

    samples: Samples
    rows: Rows
    """What is trained."""
    eval_samples: Samples
    eval_rows: Rows
    """What is only evaluated; the samples may be the same, the rows hold others of them."""
    num_samples: int
    """Samples in the files, eval data left out where it has files of its own."""
    skipped: int
    """Samples that hold nothing to train on, or were dropped."""
    num_bad_rows: int
    """Rows that could not be used (data.bad_rows: skip)."""
    warnings: list[str]
    """What the user should know about the data."""
    fingerprint: str
    """Digest of the tokens, their marks, the tokenizer and the options."""
    sequence_length: int
    pad_id: int
    seed: int
    shuffle: bool

    @property
    def num_sequences(self) -> int:
        """Rows of exactly `sequence_length` tokens that are trained, after packing."""
        return len(self.rows)

    @property
    def num_tokens(self) -> int:
        """Tokens in those rows, padding left out."""
        return int(self.samples.lengths[self.rows.members].sum())

    @property
    def num_trained_tokens(self) -> int:
        """Tokens of them that count in the loss."""
        return int(self.samples.trained_counts[self.rows.members].sum(dtype=np.int64))

    @property
    def num_eval_sequences(self) -> int:
        """Rows of eval data; 0 for none."""
        return len(self.eval_rows)

    def steps_of_epochs(self, epochs: float, global_batch_size: int) -> int:
        """Optimizer steps of `epochs` passes, at least one. Each pass ends with a step of what is left."""
        return max(1, math.ceil(epochs * steps_of_epoch(len(self.rows), global_batch_size)))

    def source(self, global_batch_size: int) -> RowSource:
        """The batches, by optimizer step."""
        return self._source(self.samples, self.rows, global_batch_size)

    def eval_batches(self, sequences: int) -> Iterator[Batch]:
        """The eval data once, in a fixed order, in batches of at most `sequences` rows."""
        return self._source(self.eval_samples, self.eval_rows, sequences).in_order()

    def _source(self, samples: Samples, rows: Rows, batch_size: int) -> RowSource:
        return RowSource(
            samples=samples, rows=rows, global_batch_size=batch_size, sequence_length=self.sequence_length,
            pad_id=self.pad_id, seed=self.seed, shuffle=self.shuffle,
        )  # fmt: skip


def load_dataset(
    spec: DataSpec, *, paths: Sequence[Path], eval_paths: Sequence[Path] = (), tokenizer_dir: Path, cache_dir: Path,
    should_stop: Callable[[], bool] = lambda: False,
) -> Dataset:  # fmt: skip
    """Load what `spec` asks for from `paths`, with the tokenizer and chat template of a model folder.

    Tokenised data is kept in `cache_dir` and read from there. Raises DataError with every problem found, by file and
    line, and DataStopped once `should_stop` says so: it is asked after each row.
    """
    tokenizer = load_tokenizer(tokenizer_dir, spec.chat_template)
    cache = TokenCache(cache_dir, should_stop)
    samples, facts = _tokenised(spec, paths, tokenizer, cache, should_stop)
    train, evaluated = split(samples.digests, spec.eval_fraction)
    eval_samples, eval_facts = samples, {}
    if eval_paths:
        eval_samples, eval_facts = _tokenised(spec, eval_paths, tokenizer, cache, should_stop)
        evaluated = np.arange(len(eval_samples))
    contents = [facts["digest"], eval_facts.get("digest", "")]
    largest_id = max(facts["largest_id"], eval_facts.get("largest_id", -1))
    return Dataset(
        samples=samples, rows=_rows(spec, samples, train),
        eval_samples=eval_samples, eval_rows=_rows(spec, eval_samples, evaluated),
        num_samples=facts["num_samples"], skipped=facts["skipped"], num_bad_rows=facts["num_bad_rows"],
        warnings=[*facts["warnings"], *(f"eval data: {warning}" for warning in eval_facts.get("warnings", []))],
        fingerprint=fingerprint(spec, tokenizer, contents), sequence_length=spec.sequence_length,
        pad_id=padding_id(largest_id, tokenizer), seed=spec.seed, shuffle=spec.shuffle,
    )  # fmt: skip


def fingerprint(spec: DataSpec, tokenizer: Tokenizer, contents: Sequence[str]) -> str:
    """Digest of the options, the tokenizer and the digests of the samples."""
    options = spec.model_dump(mode="json", exclude={"path", "eval_path", "format"})
    parts = [options, tokenizer.fingerprint, *contents]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def padding_id(largest_id: int, tokenizer: Tokenizer) -> int:
    """The id to pad with, after a look whether the model has an embedding for each id. Raises DataError."""
    words = tokenizer.model_vocabulary()
    if words is None:
        return tokenizer.pad_id
    if largest_id >= words:
        token = tokenizer.show([largest_id])[0]
        raise refused(
            "model.path", f"the tokenizer gives the id {largest_id} ({token!r}), but the model knows {words} ids",
            "take the tokenizer that belongs to the model, or resize the model's embeddings",
        )  # fmt: skip
    # A pad token that was added later often has no embedding; what stands in padding is never looked at.
    return tokenizer.pad_id if tokenizer.pad_id < words else 0


def nothing_to_train(tally: Tally) -> str:
    """Why there is nothing to train on."""
    if not tally.num_samples:
        return "the files hold no samples"
    told = f"none of the {tally.num_samples} samples has a token to train on"
    cut = tally.cut.total
    return f"{told}; {cut} are cut before one by data.sequence_length" if cut else told


def _rows(spec: DataSpec, samples: Samples, chosen: "np.ndarray[Any, np.dtype[np.int64]]") -> Rows:
    if not spec.packing:
        return one_a_row(chosen)
    return pack(chosen, samples.lengths[chosen], spec.sequence_length)


def _tokenised(
    spec: DataSpec, paths: Sequence[Path], tokenizer: Tokenizer, cache: TokenCache, should_stop: Callable[[], bool]
) -> tuple[Samples, dict[str, Any]]:
    """Samples and facts of some files, from the cache or made now. Raises DataError."""
    problems = ProblemList(skip_rows=spec.bad_rows is BadRows.SKIP)
    files = find_files(paths, problems)
    problems.raise_if_any()
    used = {"format", "chat_template", "sequence_length", "train_on", "too_long", "bad_rows"}
    options = {**spec.model_dump(mode="json", include=used), "tokenizer": tokenizer.fingerprint}
    return cache.samples(
        files, options, lambda writer: _tokenise(spec, files, tokenizer, problems, writer, should_stop)
    )


def _tokenise(
    spec: DataSpec, files: Sequence[Path], tokenizer: Tokenizer, problems: ProblemList, writer: SampleWriter,
    should_stop: Callable[[], bool],
) -> dict[str, Any]:  # fmt: skip
    """Write the samples of `files`; gives what is to be known of them. Raises DataError, DataStopped."""
    cutter = Cutter(spec.sequence_length, spec.too_long)
    rows = RowReader(files, spec.format, problems)
    for encoded in encode_rows(rows, tokenizer, spec.train_on, problems):
        if should_stop():
            raise DataStopped
        for sequence in cutter.cut(encoded):
            if not problems.found.total:
                writer.add(sequence)
    problems.raise_if_any()
    tally = cutter.tally
    if not tally.num_used:
        raise refused("data.path", nothing_to_train(tally), "give rows with an assistant's answer, or text")
    return {
        "num_samples": tally.num_samples,
        "skipped": tally.skipped.total + tally.dropped.total,
        "num_bad_rows": problems.bad_rows.total,
        "warnings": _warnings(spec, tokenizer, problems, tally),
        "digest": writer.digest.hexdigest(),
        "largest_id": writer.digest.largest_id,
    }


def _warnings(spec: DataSpec, tokenizer: Tokenizer, problems: ProblemList, tally: Tally) -> list[str]:
    found = [problem_text(problem) for problem in problems.warned.listed[:_MOST_WARNINGS]]
    if problems.warned.total > len(found):
        found.append(f"and {problems.warned.total - len(found)} more warnings")
    if problems.bad_rows.total:
        found.append(f"{_skipped(problems.bad_rows)}")
    if tokenizer.eos_id is None and tally.has_text:
        found.append("the tokenizer has no end-of-text token, so the model does not learn where a text ends")
    return [*found, *tally.warnings(spec.sequence_length)]


def _skipped(bad_rows: Findings) -> str:
    return f"{bad_rows.total} bad rows are skipped (data.bad_rows): {counted(bad_rows)}"
