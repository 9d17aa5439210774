"""Which samples share a row. Pure arithmetic on lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_OPEN_SAMPLES = 1 << 16
"""After so many samples rows are closed: the search for room takes time and memory by their number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Samples of each row: row `r` holds `members[starts[r]:starts[r + 1]]`, in that order.

    Shapes: `members` [samples] int64, `starts` [rows + 1] int64.
    """

    members: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


def one_a_row(samples: NDArray[np.int64]) -> Rows:
    """Every sample alone."""
    return Rows(members=samples, starts=np.arange(len(samples) + 1))


def pack(samples: NDArray[np.int64], lengths: NDArray[np.int64], capacity: int) -> Rows:
    """First fit: each sample, in order, goes into the first row with room for it; rows are closed now and then.

    Shapes: `samples` and `lengths` [samples].
    """
    rows = np.empty(len(samples), np.int64)
    num_rows = 0
    for start in range(0, len(samples), _OPEN_SAMPLES):
        part = slice(start, start + _OPEN_SAMPLES)
        rows[part] = _first_fit(lengths[part].tolist(), capacity)
        rows[part] += num_rows
        num_rows = int(rows[part].max()) + 1
    order = np.argsort(rows, kind="stable")
    return Rows(members=samples[order], starts=np.searchsorted(rows[order], np.arange(num_rows + 1)))


def _first_fit(lengths: Sequence[int], capacity: int) -> list[int]:
    """The row of each sample, with a tree of maxima over the room left: its leaves are the rows, all empty at first."""
    leaves = 1 << max(len(lengths) - 1, 0).bit_length()
    room = [capacity] * (2 * leaves)
    rows: list[int] = []
    for length in lengths:
        node = 1
        while node < leaves:
            node *= 2
            if room[node] < length:
                node += 1
        rows.append(node - leaves)
        room[node] -= length
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    return rows
