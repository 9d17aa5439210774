"""Cuts encoded rows to sequences: a long text becomes several, a long conversation loses its end or is dropped."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.spec_words import TooLong
from horizon_app.data.encoding import Encoded
from horizon_app.data.errors import Findings, counted
from horizon_app.data.rows import Row, TextRow, content_digest
from horizon_app.data.tokenizer import Ids


class TokenSequence(NamedTuple):
    """Tokens of one row that are trained together, at most as many as a sequence has."""

    row: Row
    piece: int
    """Which piece of a long text it is, counted from 1; 0 where the row is not split."""
    ids: Ids
    trained: NDArray[np.bool_]
    """Never true at the first token, which has nothing before it to be predicted from."""
    digest: int
    """64 bits of the content."""


@dataclass(slots=True)
class Tally:
    """What became of the rows."""

    num_samples: int = 0
    num_used: int = 0
    """Samples that hold something to train on."""
    has_text: bool = False
    skipped: Findings = field(default_factory=Findings)
    """Samples without a token to train on."""
    cut: Findings = field(default_factory=Findings)
    dropped: Findings = field(default_factory=Findings)

    def warnings(self, length: int) -> list[str]:
        """What the user should know of them, with the first places."""
        whole = self.num_samples
        said = (
            (self.skipped, "hold no token to train on and are skipped"),
            (self.cut, f"have more than {length} tokens (data.sequence_length) and are cut there"),
            (self.dropped, f"have more than {length} tokens (data.sequence_length) and are dropped (data.too_long)"),
        )
        return [f"{found.total} of {whole} samples {what}: {counted(found)}" for found, what in said if found.total]


class Cutter:
    """Takes encoded rows in order and gives their sequences."""

    def __init__(self, length: int, too_long: TooLong) -> None:
        self.tally = Tally()
        self._length = length
        self._too_long = too_long
        self._text: list[Ids] = []
        self._pieces = 0

    def cut(self, encoded: Encoded) -> Iterator[TokenSequence]:
        """The sequences that are whole with this row."""
        if isinstance(encoded.row, TextRow):
            yield from self._cut_text(encoded.row, encoded.ids)
        else:
            yield from self._cut_answer(encoded)

    def _cut_answer(self, encoded: Encoded) -> Iterator[TokenSequence]:
        row, ids, trained = encoded
        self.tally.num_samples += 1
        if len(ids) > self._length:
            place = _place(row, f"{len(ids)} tokens, a sequence has {self._length} (data.sequence_length)")
            if self._too_long is TooLong.DROP:
                self.tally.dropped.add(place)
                return
            self.tally.cut.add(place)
        trained = trained[: self._length].copy()
        trained[:1] = False
        if trained.any():
            self.tally.num_used += 1
            yield TokenSequence(row, 0, ids[: self._length], trained, content_digest(row))
            return
        why = f", since it is cut after {self._length} tokens" if len(ids) > self._length else ""
        self.tally.skipped.add(_place(row, f"no token to train on{why}"))

    def _cut_text(self, row: TextRow, ids: Ids) -> Iterator[TokenSequence]:
        """Long texts come in parts; what may belong to the last piece waits for the next part."""
        waiting = np.concatenate([*self._text, ids])
        # A last piece of one token has nothing before it to be predicted from: it gets the token before it too.
        while len(waiting) > self._length + 1 or (row.ends and len(waiting) > self._length):
            yield self._piece(row, waiting[: self._length])
            waiting = waiting[self._length - (row.ends and len(waiting) == self._length + 1) :]
        self._text = [waiting]
        if row.ends:
            yield from self._end_text(row)

    def _end_text(self, row: TextRow) -> Iterator[TokenSequence]:
        rest = self._text[0]
        self.tally.num_samples += 1
        self.tally.has_text = True
        if len(rest) > 1 or self._pieces:
            self.tally.num_used += 1
        else:
            self.tally.skipped.add(_place(row, "no token to train on"))
        if len(rest) > 1:
            yield self._piece(row, rest) if self._pieces else _sequence(row, 0, rest, content_digest(row))
        self._text, self._pieces = [], 0

    def _piece(self, row: TextRow, ids: Ids) -> TokenSequence:
        self._pieces += 1
        return _sequence(row, self._pieces, ids, xxh3_64_intdigest(ids.tobytes()))


def _sequence(row: Row, piece: int, ids: Ids, digest: int) -> TokenSequence:
    trained = np.ones(len(ids), np.bool_)
    trained[:1] = False
    return TokenSequence(row, piece, ids, trained, digest)


def _place(row: Row, message: str) -> FieldProblem:
    return FieldProblem(field="data.path", message=message, file=row.file, line=row.line)
