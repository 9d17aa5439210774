"""Hands out the sequences of optimizer steps, as many at a time as are asked for, in the source's order."""

from collections.abc import Iterator

import numpy as np

from horizon_app.data.batches import Batch


class BatchFeed:
    """Cuts and joins batches where an optimizer step has another number of sequences than the source's batches."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._left: Batch | None = None

    def take(self, sequences: int) -> Batch | None:
        """The next `sequences` sequences (fewer at the end of a source that ends); None where there are none."""
        found = self._left
        while found is None or len(found.input_ids) < sequences:
            following = next(self._batches, None)
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
