"""Which samples share a row. Pure arithmetic on lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Samples of each row: row `r` holds `members[starts[r]:starts[r + 1]]`, in that order.

    Shapes: `members` [samples] int64, `starts` [rows + 1] int64.
    """

    members: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


def one_a_row(num_samples: int) -> Rows:
    """Every sample alone."""
    return Rows(members=np.arange(num_samples), starts=np.arange(num_samples + 1))


def pack(lengths: Sequence[int], capacity: int) -> Rows:
    """First fit: each sample, in order, goes into the first row with room for it."""
    rows = np.array(_first_fit(lengths, capacity), dtype=np.int64)
    members = np.argsort(rows, kind="stable")
    num_rows = int(rows.max()) + 1 if len(rows) else 0
    return Rows(members=members, starts=np.searchsorted(rows[members], np.arange(num_rows + 1)))


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
