"""Embedding tables stay on the host; only the rows of a batch's tokens move to the device."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.func import functional_call

from horizon_app.engine.errors import BadBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class RowGradient:
    """Rows that a micro-batch looked up, and the leaf that collects their gradient on the device."""

    parameter: str
    rows: torch.Tensor  # int64 [unique rows], on the host
    leaf: torch.Tensor  # [unique rows, width], on the device
    padding_row: int | None  # its gradient is dropped, as nn.Embedding does with padding_idx


class HostLookup(nn.Module):
    """Stands in for an embedding: runs the model's own embedding module on just the rows that are asked for."""

    def __init__(
        self, embedding: nn.Embedding, parameter: str, device: torch.device, compute_dtype: torch.dtype
    ) -> None:
        super().__init__()
        # Kept out of the module tree: its weight is a table on meta that must never be used.
        object.__setattr__(self, "_embedding", embedding)
        self._padding_row = embedding.padding_idx
        embedding.padding_idx = None
        self.parameter, self._device, self._dtype = parameter, device, compute_dtype
        self.num_embeddings, self.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        self.read_rows: Callable[[torch.Tensor], torch.Tensor] | None = None  # sorted rows -> [rows, width]
        self.collected: list[RowGradient] = []

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The embedding of `ids`. Shapes: ids [...], answer [..., width]."""
        rows, inverse = torch.unique(ids.to("cpu"), return_inverse=True)
        if rows.numel() and (int(rows[-1]) >= self.num_embeddings or int(rows[0]) < 0):
            raise BadBatch(
                f"{self.parameter} has {self.num_embeddings} rows, but the data asks for row {int(rows[-1])}: the "
                "tokenizer or the sequence length does not fit the model"
            )
        leaf = self._rows(rows).to(self._device).requires_grad_()
        self.collected.append(
            RowGradient(parameter=self.parameter, rows=rows, leaf=leaf, padding_row=self._padding_row)
        )
        embedding: nn.Embedding = self._embedding  # type: ignore[assignment]
        return functional_call(embedding, {"weight": leaf}, (inverse.to(self._device),))

    def _rows(self, rows: torch.Tensor) -> torch.Tensor:
        if self.read_rows is None:  # only shapes matter while the order of accesses is recorded
            return torch.zeros(rows.numel(), self.embedding_dim, dtype=self._dtype)
        return self.read_rows(rows)
