"""The loss on held-out data: the mean over trained tokens, however they are cut into batches."""

import math
from collections.abc import Iterable, Sequence

import torch

from horizon_app.data.batches import Batch
from horizon_app.engine.errors import BadBatch
from horizon_app.engine.training.forward import ForwardPass, Passage
from horizon_app.engine.training.loss import summed_cross_entropy
from horizon_app.engine.training.micro_batch import MicroBatch, split
from horizon_app.engine.training.requests import Evaluation
from horizon_app.engine.training.stages import Stages


class Evaluator:
    """Measures the loss of the weights as they are."""

    def __init__(self, stages: Stages, forward: ForwardPass, chunk_tokens: int) -> None:
        self._stages, self._forward, self._chunk_tokens = stages, forward, chunk_tokens

    def run(self, batches: Iterable[Batch], micro_batch: int) -> Evaluation:
        """Sum over all `batches`, `micro_batch` sequences in a call. Raises BadBatch where no token is trained."""
        sums: list[float] = []
        tokens = 0
        with self._forward.opened():
            for batch in batches:
                group = [m for m in split(batch, micro_batch, self._stages.model.device) if m.targets.numel()]
                tokens += sum(m.targets.numel() for m in group)
                sums += self._losses(group) if group else []
        if tokens == 0:
            raise BadBatch("the held-out data has no trained token to measure the loss on")
        return Evaluation(loss=math.fsum(sums) / tokens, num_tokens=tokens)

    def _losses(self, group: Sequence[MicroBatch]) -> list[float]:
        passages = [
            Passage(
                input_ids=m.input_ids, position_ids=m.position_ids,
                head_chunks=len(m.chunks(self._chunk_tokens)),
            )
            for m in group
        ]  # fmt: skip
        losses = self._forward.run(passages, lambda i, hidden_STH: self._head(group[i], hidden_STH))
        return [float(loss) for loss in losses]

    def _head(self, m: MicroBatch, hidden_STH: torch.Tensor) -> torch.Tensor:
        model = self._stages.model
        final = model.epilogue(hidden_STH, m.position_ids)
        picked, chunks = m.picked(final), m.chunks(self._chunk_tokens)
        return torch.stack(
            [summed_cross_entropy(model.logits(picked[rows]), m.targets[rows]) for rows in chunks]
        ).sum()  # fmt: skip
