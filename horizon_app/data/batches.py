"""A batch of token sequences, as the engine takes it. Plain numpy; knows nothing of files or tokenizers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

IGNORE = -100
"""Label of a token that does not count in the loss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """The sequences of one optimizer step (the global batch).

    Shapes: all three are [sequences, sequence_length], int64. `labels[s, t]` is `input_ids[s, t]` where that token is
    trained, else `IGNORE`; it is not shifted (the engine predicts `labels[s, t + 1]` from position t), and the first
    token of every packed sample is `IGNORE`, so that no sample predicts the next one's start. `position_ids` restarts
    at 0 with every sample (and with the padding at the end of a row): that is what keeps samples from attending to
    each other. `origins` says for each sequence which samples it holds, for example "chats.jsonl line 4"; it is empty
    for a sequence of padding alone, and has no entries where the source does not tell.
    """

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    position_ids: NDArray[np.int64]
    num_samples: int
    origins: tuple[str, ...] = ()

    @property
    def num_trained_tokens(self) -> int:
        """Tokens that count in the loss."""
        return int((self.labels[:, 1:] != IGNORE).sum())


class BatchSource(Protocol):
    """Gives the batch of any optimizer step; the same step gives the same batch."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Batches from optimizer step `first_step` (counted from 1) on, without end: reshuffled epoch after epoch."""
        ...
