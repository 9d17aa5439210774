"""Batches of rows in an order that the seed decides. Any optimizer step's batch is found without the ones before."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from horizon_app.data.batches import IGNORE, Batch
from horizon_app.data.origins import Origins
from horizon_app.data.packing import Rows
from horizon_app.data.samples import Samples


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSource:
    """A BatchSource over packed rows.

    Epochs follow each other, each in its own order; a batch that an epoch can't fill takes the rest from the next one.
    Where all rows are fewer than a batch, each batch is one epoch, filled up with rows that hold only padding.
    """

    samples: Samples
    origins: Origins
    rows: Rows
    global_batch_size: int
    sequence_length: int
    pad_id: int
    seed: int

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Batches from optimizer step `first_step` (counted from 1) on, without end."""
        step = first_step
        while True:
            yield self._batch(self._rows_of_step(step))
            step += 1

    def _rows_of_step(self, step: int) -> list[int]:
        num_rows, size = len(self.rows), self.global_batch_size
        if num_rows < size:
            return [int(row) for row in self._order(step - 1)]
        chosen: list[int] = []
        position = (step - 1) * size
        while len(chosen) < size:
            epoch, offset = divmod(position + len(chosen), num_rows)
            part = self._order(epoch)[offset : offset + size - len(chosen)]
            chosen += [int(row) for row in part]
        return chosen

    def _order(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.rows))

    def _batch(self, rows: list[int]) -> Batch:
        shape = (self.global_batch_size, self.sequence_length)
        input_ids = np.full(shape, self.pad_id, dtype=np.int64)
        labels = np.full(shape, IGNORE, dtype=np.int64)
        position_ids = np.tile(np.arange(self.sequence_length), (self.global_batch_size, 1))
        num_samples = 0
        origins = [""] * self.global_batch_size
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
            origins[place] = self.origins.of(members.tolist())
        return Batch(
            input_ids=input_ids, labels=labels, position_ids=position_ids, num_samples=num_samples,
            origins=tuple(origins),
        )  # fmt: skip
