"""Token samples of at most one sequence each, in flat arrays: four bytes a token and one for its mark."""

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """All samples behind each other. Sample `i` is `ids[starts[i]:starts[i + 1]]`.

    Shapes: `ids` [tokens] int32; `trained` [tokens] bool, never true at a sample's first token; `starts`
    [samples + 1] int64.
    """

    ids: NDArray[np.int32]
    trained: NDArray[np.bool_]
    starts: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sample."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1


class SampleStore:
    """Takes samples one by one and gives them as arrays."""

    def __init__(self) -> None:
        self._ids = array("i")
        self._trained = bytearray()
        self._starts = array("q", [0])

    def add(self, ids: NDArray[np.int32], trained: NDArray[np.bool_]) -> bool:
        """Keep a sample if it has a token to train on; answers whether it has. Its first token has none before it."""
        marks = trained.copy()
        marks[:1] = False
        if not marks.any():
            return False
        self._ids.frombytes(np.ascontiguousarray(ids, np.int32).tobytes())
        self._trained += marks.tobytes()
        self._starts.append(len(self._ids))
        return True

    def samples(self) -> Samples:
        """Everything added, without a copy. Nothing may be added after."""
        return Samples(
            ids=np.frombuffer(self._ids, dtype=np.int32),
            trained=np.frombuffer(self._trained, dtype=np.bool_),
            starts=np.frombuffer(self._starts, dtype=np.int64),
        )
