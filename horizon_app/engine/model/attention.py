"""Attention in bf16 on a CPU as batched products: less time than torch's own kernel takes, half where heads share keys.

A block of queries is multiplied with the keys that any of them sees, and with no others: half of all where each token
sees those before it, less where samples are packed. So the scores of one block exist at a time, forward and backward,
and nothing of them is kept in between. As in every product in bf16, scores are rounded to it; softmax counts in fp32.

Shape suffixes: B sequences, H heads of queries, K of keys and values, G of queries for each of them, T tokens, D width
of a head; and of one block: N heads of keys, Q queries, M = G Q rows of scores, C keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.function import FunctionCtx
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "horizon_products"
QUERIES = 128
"""Of one block at most: the products are large enough, and little of what they multiply is hidden."""
FEWEST_QUERIES = 16
SCORE_BYTES = 4 << 20
"""Scores that exist at once, about: they stay in the caches from one operator to the next."""


def attend_by_products(model: PreTrainedModel) -> None:
    """Have a model's layers come here for attention, if it is of those that leave it to torch."""
    if model.config.get_text_config()._attn_implementation == "sdpa" and model._can_set_attn_implementation():
        AttentionInterface.register(NAME, attention_forward)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def attention_forward(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    attention_mask: torch.Tensor | None, dropout: float = 0.0, scaling: float | None = None,
    is_causal: bool | None = None, **kwargs: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """What transformers' models call; anything but whole sequences in bf16 is handed on to torch.

    Shapes: query [B, H, T, D], key and value [B, K, T, D], mask [B or 1, 1, T, T], True where a query sees a key;
    answer [B, T, H, D].
    """
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    tokens, plain = query.shape[2], dropout == 0.0 and kwargs.get("position_bias") is None
    if attention_mask is None:
        seen = causal
    else:
        seen = attention_mask.dtype == torch.bool and attention_mask.shape[1:] == (1, tokens, tokens)
    ours = all(tensor.dtype == torch.bfloat16 and tensor.device.type == "cpu" for tensor in (query, key, value))
    if not (ours and plain and seen and tokens == key.shape[2] > 1 and kwargs.get("softcap") is None):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **kwargs
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return _Attention.apply(query, key, value, attention_mask, scale), None


@dataclass(frozen=True, slots=True)
class _Block:
    """Queries of one sequence, and the keys that any of them sees."""

    queries: slice
    keys: slice
    hidden: torch.Tensor  # [Q, last keys], True where a query does not see a key; all see the keys before those


def _blocks(mask_BHTT: torch.Tensor | None, sequence: int, tokens: int, most: int) -> list[_Block]:
    blocks: list[_Block] = []
    later = torch.ones(most, most, dtype=torch.bool).triu(1)
    for start in range(0, tokens, most):
        end = min(start + most, tokens)
        if mask_BHTT is None:
            blocks.append(_Block(slice(start, end), slice(0, end), later[: end - start, : end - start]))
            continue
        seen_QT = mask_BHTT[min(sequence, mask_BHTT.shape[0] - 1), 0, start:end]
        found = seen_QT.any(0).nonzero()
        keys = slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0, 1)  # for queries that nobody trains
        blocks.append(_Block(slice(start, end), keys, ~seen_QT[:, keys]))
    return blocks


@dataclass(frozen=True, slots=True)
class _Heads:
    """Heads of one sequence that are multiplied at once: some of the keys', and all that query them."""

    sequence: int
    heads: slice
    groups: int
    blocks: list[_Block]

    def of_keys(self, tensor_BKTD: torch.Tensor) -> torch.Tensor:
        """Shape of answer: [N, T, D]."""
        return tensor_BKTD[self.sequence, self.heads]

    def of_queries(self, tensor_BHTD: torch.Tensor, block: _Block) -> torch.Tensor:
        """Shape of answer: [N, G, Q, D]."""
        return tensor_BHTD[self.sequence].unflatten(0, (-1, self.groups))[self.heads, :, block.queries]

    def rows(self, tensor_BHTD: torch.Tensor, block: _Block) -> torch.Tensor:
        """A copy of those queries. Shape of answer: [N, M, D]."""
        return self.of_queries(tensor_BHTD, block).flatten(1, 2).contiguous()

    def set_rows(self, tensor_BHTD: torch.Tensor, block: _Block, rows_NMD: torch.Tensor) -> None:
        """Write what `rows` reads."""
        target = self.of_queries(tensor_BHTD, block)
        target.copy_(rows_NMD.view(target.shape))

    def weights(self, query_NMD: torch.Tensor, key_NTD: torch.Tensor, block: _Block, scale: float) -> torch.Tensor:
        """How much a query takes of each key's value. Shape of answer: [N, M, C]."""
        scores_NMC = _product(query_NMD, key_NTD[:, block.keys].transpose(1, 2), scale)
        some_hidden = scores_NMC.unflatten(1, (self.groups, -1))[..., -block.hidden.shape[1] :]
        some_hidden.masked_fill_(block.hidden, torch.finfo(scores_NMC.dtype).min)
        return torch.softmax(scores_NMC, -1)


def _heads(query_BHTD: torch.Tensor, key_BKTD: torch.Tensor, mask_BHTT: torch.Tensor | None) -> Iterator[_Heads]:
    sequences, num_keys, tokens = key_BKTD.shape[:3]
    groups = query_BHTD.shape[1] // num_keys
    of_a_query = groups * tokens * query_BHTD.element_size()
    queries = max(FEWEST_QUERIES, min(QUERIES, tokens, SCORE_BYTES // of_a_query))
    at_once = max(1, SCORE_BYTES // (queries * of_a_query))
    for sequence in range(sequences):
        blocks = _blocks(mask_BHTT, sequence, tokens, queries)
        for first in range(0, num_keys, at_once):
            yield _Heads(sequence, slice(first, first + at_once), groups, blocks)


def _product(a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
    """The products of two batches times `scale`, rounded once."""
    return torch.baddbmm(a.new_empty(1, 1, 1), a, b, beta=0, alpha=scale)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
        scale: float,
    ) -> torch.Tensor:  # fmt: skip
        ctx.save_for_backward(query, key, value, mask)  # type: ignore[arg-type]  # which may be None
        ctx.scale = scale  # type: ignore[attr-defined]
        sequences, num_heads, tokens, _ = query.shape
        out_BTHD = query.new_empty(sequences, tokens, num_heads, value.shape[3])
        for heads in _heads(query, key, mask):
            key_NTD, value_NTD = heads.of_keys(key).contiguous(), heads.of_keys(value).contiguous()
            for block in heads.blocks:
                weights_NMC = heads.weights(heads.rows(query, block), key_NTD, block, scale)
                heads.set_rows(out_BTHD.transpose(1, 2), block, torch.bmm(weights_NMC, value_NTD[:, block.keys]))
        return out_BTHD

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, mask = ctx.saved_tensors
        dout = grad_outputs[0].transpose(1, 2)
        # As the layers around have them: all heads of a token one behind the other.
        dquery, dkey, dvalue = (torch.empty_like(x.transpose(1, 2)).transpose(1, 2) for x in (query, key, value))
        for heads in _heads(query, key, mask):
            key_NTD, value_NTD = heads.of_keys(key).contiguous(), heads.of_keys(value).contiguous()
            # Sums over blocks, in fp32: in bf16 each of them would round again.
            dkey_NTD, dvalue_NTD = (torch.zeros_like(x, dtype=torch.float32) for x in (key_NTD, value_NTD))
            for block in heads.blocks:
                query_NMD, dout_NMD = heads.rows(query, block), heads.rows(dout, block)
                weights_NMC = heads.weights(query_NMD, key_NTD, block, ctx.scale)
                dvalue_NTD[:, block.keys] += torch.bmm(weights_NMC.transpose(1, 2), dout_NMD)
                dweights_NMC = torch.bmm(dout_NMD, value_NTD[:, block.keys].transpose(1, 2))
                dscores_NMC = torch._softmax_backward_data(dweights_NMC, weights_NMC, -1, weights_NMC.dtype)
                dkey_NTD[:, block.keys] += _product(dscores_NMC.transpose(1, 2), query_NMD, ctx.scale)
                heads.set_rows(dquery, block, _product(dscores_NMC, key_NTD[:, block.keys], ctx.scale))
            heads.of_keys(dkey).copy_(dkey_NTD)
            heads.of_keys(dvalue).copy_(dvalue_NTD)
        return dquery, dkey, dvalue, None, None
