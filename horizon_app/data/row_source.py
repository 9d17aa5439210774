"""Batches of rows in an order that the seed decides. Any optimizer step's batch is found without the ones before."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from horizon_app.data.batches import IGNORE, Batch
from horizon_app.data.packing import Rows
from horizon_app.data.samples import Samples


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSource:
    """A BatchSource over packed rows.

    Epochs follow each other, each in an order of its own, or in that of the rows. The last batch of an epoch is filled
    up with rows that hold only padding: no epoch's rows count in the next one, and none is left out.
    """

    samples: Samples
    rows: Rows
    global_batch_size: int
    sequence_length: int
    pad_id: int
    seed: int
    shuffle: bool

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Batches from optimizer step `first_step` (counted from 1) on, without end."""
        steps = steps_of_epoch(len(self.rows), self.global_batch_size)
        epoch, place = divmod(first_step - 1, steps)
        while True:
            order = self._order(epoch)
            for start in range(place * self.global_batch_size, len(order), self.global_batch_size):
                rows = order[start : start + self.global_batch_size].tolist()
                yield self.batch(rows, self.global_batch_size)
            epoch, place = epoch + 1, 0

    def in_order(self) -> Iterator[Batch]:
        """All rows once, in their own order; the last batch is as large as what is left."""
        for start in range(0, len(self.rows), self.global_batch_size):
            rows = range(start, min(start + self.global_batch_size, len(self.rows)))
            yield self.batch(rows, len(rows))

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(len(self.rows))
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.rows))

    def batch(self, rows: Sequence[int], size: int) -> Batch:
        """A batch of some rows, filled up to `size` with rows of padding."""
        shape = (size, self.sequence_length)
        input_ids = np.full(shape, self.pad_id, dtype=np.int64)
        labels = np.full(shape, IGNORE, dtype=np.int64)
        position_ids = np.tile(np.arange(self.sequence_length), (size, 1))
        num_samples = 0
        origins = [""] * size
        for place, row in enumerate(rows):
            members = self.rows.members[self.rows.starts[row] : self.rows.starts[row + 1]]
            filled = 0
            for member in members:
                start, end = int(self.samples.starts[member]), int(self.samples.starts[member + 1])
                here = slice(filled, filled + end - start)
                ids = self.samples.ids[start:end]
                input_ids[place, here] = ids
                labels[place, here] = np.where(self.samples.trained[start:end], ids, IGNORE)
                position_ids[place, here] = np.arange(end - start)
                filled = here.stop
            position_ids[place, filled:] = np.arange(self.sequence_length - filled)
            num_samples += len(members)
            origins[place] = self.samples.origins(members.tolist())
        return Batch(
            input_ids=input_ids, labels=labels, position_ids=position_ids, num_samples=num_samples,
            origins=tuple(origins),
        )  # fmt: skip


def steps_of_epoch(num_rows: int, global_batch_size: int) -> int:
    """Optimizer steps that pass all rows once."""
    return max(1, math.ceil(num_rows / global_batch_size))
