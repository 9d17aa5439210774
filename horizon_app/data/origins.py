"""Where samples came from: file, line and piece of each, kept as numbers and written as words only where asked."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horizon_app.data.files import TEXT_SUFFIXES
from horizon_app.data.rows import Row

_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Origins:
    """The origin of each sample.

    Shapes: all three arrays are [samples]. `file` counts in `files`; `line` counts from 1; `piece` counts from 1 the
    sequences that a long text was cut into, 0 where it was not cut.
    """

    files: tuple[str, ...]
    file: NDArray[np.int32]
    line: NDArray[np.int64]
    piece: NDArray[np.int32]

    def of(self, samples: Sequence[int]) -> str:
        """The origins of some samples in words, at most three of them; empty for none."""
        named = ", ".join(self._one(sample) for sample in samples[:_MOST_NAMED])
        more = len(samples) - _MOST_NAMED
        return f"{named} and {more} more" if more > 0 else named

    def _one(self, sample: int) -> str:
        path, piece = Path(self.files[int(self.file[sample])]), int(self.piece[sample])
        # A text file is one row, which begins at line 1 whatever the piece: the number would mislead.
        line = "" if path.suffix.lower() in TEXT_SUFFIXES else f" line {self.line[sample]}"
        return f"{path.name}{line}{f' piece {piece}' if piece else ''}"


class OriginStore:
    """Takes origins one by one, in the order of the samples, and gives them as arrays."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._file = array("i")
        self._line = array("q")
        self._piece = array("i")

    def add(self, row: Row, piece: int) -> None:
        """Note where the next sample came from; `piece` as in `Origins`."""
        self._file.append(self._numbers.setdefault(row.file, len(self._numbers)))
        self._line.append(row.line)
        self._piece.append(piece)

    def origins(self) -> Origins:
        """Everything added, without a copy. Nothing may be added after."""
        return Origins(
            files=tuple(self._numbers),
            file=np.frombuffer(self._file, dtype=np.int32),
            line=np.frombuffer(self._line, dtype=np.int64),
            piece=np.frombuffer(self._piece, dtype=np.int32),
        )
