"""Hands out the sequences of optimizer steps, as many at a time as are asked for, in the source's order."""

from dataclasses import dataclass

import numpy as np

from horizon_app.data.batches import Batch, BatchSource


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedPosition:
    """The next sequence: row `row`, from 0, of the source's batch `batch`, from 1."""

    batch: int = 1
    row: int = 0


class BatchFeed:
    """Cuts and joins batches where an optimizer step has another number of sequences than the source's batches."""

    def __init__(self, source: BatchSource, start: FeedPosition) -> None:
        """Begin at any place: how steps were cut before does not matter."""
        self._batches = source.batches(start.batch)
        self._next_batch = start.batch
        self._left: Batch | None = None
        self._pulled_rows = 0  # of the batch that `_left` is the rest of
        if start.row and (cut := self._pull()) is not None:
            self._left = _rows(cut, slice(start.row, None))

    @property
    def position(self) -> FeedPosition:
        """Where a feed must start that goes on as this one does."""
        if self._left is None:
            return FeedPosition(batch=self._next_batch)
        return FeedPosition(batch=self._next_batch - 1, row=self._pulled_rows - len(self._left.input_ids))

    def take(self, sequences: int) -> Batch | None:
        """The next `sequences` sequences (fewer at the end of a source that ends); None where there are none."""
        found = self._left
        while found is None or len(found.input_ids) < sequences:
            following = self._pull()
            if following is None:
                break
            found = following if found is None else _joined(found, following)
        if found is None:
            return None
        self._left = None
        if len(found.input_ids) > sequences:
            self._left = _rows(found, slice(sequences, None))
            found = _rows(found, slice(sequences))
        return found

    def _pull(self) -> Batch | None:
        batch = next(self._batches, None)
        if batch is not None:
            self._next_batch += 1
            self._pulled_rows = len(batch.input_ids)
        return batch


def _joined(a: Batch, b: Batch) -> Batch:
    return Batch(
        input_ids=np.concatenate([a.input_ids, b.input_ids]), labels=np.concatenate([a.labels, b.labels]),
        position_ids=np.concatenate([a.position_ids, b.position_ids]), num_samples=a.num_samples + b.num_samples,
        origins=(*a.origins, *b.origins),
    )  # fmt: skip


def _rows(batch: Batch, rows: slice) -> Batch:
    part = len(batch.input_ids[rows]) / max(1, len(batch.input_ids))
    return Batch(
        input_ids=batch.input_ids[rows], labels=batch.labels[rows], position_ids=batch.position_ids[rows],
        num_samples=round(batch.num_samples * part), origins=batch.origins[rows],
    )  # fmt: skip
