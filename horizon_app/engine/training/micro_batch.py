"""A global batch cut into micro-batches, and what each carries on its way through the stages.

Shape suffixes: S sequences of a micro-batch, T tokens of a sequence, H width.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from horizon_app.data.batches import IGNORE, Batch
from horizon_app.engine.model.lookup import RowGradient
from horizon_app.engine.model.staged import LayerCall


@dataclass(kw_only=True, slots=True)
class MicroBatch:
    """A micro-batch on its way through the stages."""

    index: int  # within the optimizer step
    first_sequence: int  # within the global batch
    input_ids: torch.Tensor  # [S, T]
    position_ids: torch.Tensor  # [S, T]
    trained: torch.Tensor  # places that predict a trained token, flat over [S, T]
    targets: torch.Tensor  # the tokens they predict
    embedded: torch.Tensor | None = None  # [S, T, H] with the graph back to the embedding rows
    rows: list[RowGradient] = field(default_factory=list[RowGradient])
    calls: list[LayerCall] = field(default_factory=list[LayerCall])
    hidden: torch.Tensor | None = None  # what the next stage gets, without a graph
    gradient: torch.Tensor | None = None  # of the stage's output, on the way down
    outputs: list[torch.Tensor] = field(default_factory=list[torch.Tensor])  # of each layer, where graphs are kept
    random_states: list[torch.Tensor] = field(default_factory=list[torch.Tensor])
    routers: dict[int, list[torch.Tensor]] = field(default_factory=dict[int, list[torch.Tensor]])
    """Router logits [tokens, experts] by stage, where there is a router loss."""
    router_gradients: dict[int, list[torch.Tensor]] = field(default_factory=dict[int, list[torch.Tensor]])
    finite_S: torch.Tensor | None = None  # [S] bool: whether the sequence reached the head without NaN

    @property
    def num_sequences(self) -> int:
        """Sequences."""
        return int(self.input_ids.shape[0])

    def picked(self, hidden_STH: torch.Tensor) -> torch.Tensor:
        """The rows of hidden states that predict a trained token. Shape: [trained tokens, H]."""
        return hidden_STH.reshape(-1, hidden_STH.shape[-1]).index_select(0, self.trained)

    def chunks(self, most_tokens: int) -> list[slice]:
        """Those rows in chunks of at most `most_tokens`: so many times the head's weights are asked for."""
        return [slice(start, start + most_tokens) for start in range(0, self.targets.numel(), most_tokens)]


def packs_samples(batch: Batch) -> bool:
    """Whether a sequence holds more than one sample that is trained on."""
    samples = (batch.position_ids == 0).cumsum(axis=1)
    return bool(((batch.labels != IGNORE) & (samples > 1)).any())


def split(batch: Batch, micro_batch: int, device: torch.device) -> list[MicroBatch]:
    """Micro-batches of at most `micro_batch` sequences, in the batch's order."""
    micro: list[MicroBatch] = []
    for index, start in enumerate(range(0, batch.input_ids.shape[0], micro_batch)):
        rows = slice(start, start + micro_batch)
        targets = np.full_like(batch.labels[rows], IGNORE)
        targets[:, :-1] = batch.labels[rows, 1:]
        trained = np.flatnonzero(targets != IGNORE)
        micro.append(
            MicroBatch(
                index=index, first_sequence=start,
                input_ids=torch.from_numpy(batch.input_ids[rows].copy()).to(device),
                position_ids=torch.from_numpy(batch.position_ids[rows].copy()).to(device),
                trained=torch.from_numpy(trained).to(device),
                targets=torch.from_numpy(targets.reshape(-1)[trained]).to(device),
            )
        )  # fmt: skip
    return micro
