"""Embedding tables stay on the host; only the rows of a batch's tokens move to the device."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from horizon_app.engine.errors import BadBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class RowGradient:
    """Rows that a micro-batch looked up, and the leaf that collects their gradient on the device."""

    parameter: str
    rows: torch.Tensor  # int64 [unique rows], on the host
    leaf: torch.Tensor  # [unique rows, width], on the device
    padding_row: int | None  # its gradient is dropped, as nn.Embedding does with padding_idx


class HostLookup:
    """Looks rows of one embedding up on the host, and notes which."""

    def __init__(
        self, embedding: nn.Embedding, parameter: str, device: torch.device, compute_dtype: torch.dtype
    ) -> None:
        self.parameter, self._device, self._dtype = parameter, device, compute_dtype
        self._padding_row = embedding.padding_idx
        self.num_embeddings, self.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        self.read_rows: Callable[[torch.Tensor], torch.Tensor] | None = None  # sorted rows -> [rows, width]
        self.collected: list[RowGradient] = []

    def look_up(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of `ids`. Shapes: ids [...], answer [..., width]. Raises BadBatch."""
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
        return F.embedding(inverse.to(self._device), leaf)

    def _rows(self, rows: torch.Tensor) -> torch.Tensor:
        if self.read_rows is None:  # a rehearsal, before there are weights
            made = torch.randn(rows.numel(), self.embedding_dim, generator=torch.Generator().manual_seed(0))
            return made.to(self._dtype)
        return self.read_rows(rows)


class _LookingUp(nn.Embedding):
    """What an embedding's last step, the look-up itself, is replaced by."""

    host_lookup: HostLookup

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.host_lookup.look_up(input)


def look_up_on_host(
    embedding: nn.Embedding, parameter: str, device: torch.device, compute_dtype: torch.dtype
) -> HostLookup:
    """Make `embedding` look its rows up on the host from now on.

    Families scale the rows, or take something else than token ids and shift it, in a `forward` of their own that ends
    in nn.Embedding's. That one alone is replaced: by a class between the two in the order of inheritance.
    """
    lookup = HostLookup(embedding, parameter, device, compute_dtype)
    own = type(embedding)
    bases = (_LookingUp,) if own is nn.Embedding else (own, _LookingUp)
    embedding.__class__ = type(own.__name__, bases, {"host_lookup": lookup})
    embedding.padding_idx = None
    # Never read, but families ask it for its dtype.
    shape = (embedding.num_embeddings, embedding.embedding_dim)
    embedding.weight = nn.Parameter(torch.empty(shape, dtype=compute_dtype, device="meta"), requires_grad=False)
    return lookup
