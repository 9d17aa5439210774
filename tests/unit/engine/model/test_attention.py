"""Attention by products: what torch's own kernel gives, and nothing of what a query may not see."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from horizon_app.engine.model import attention
from horizon_app.engine.model.attention import NAME, QUERIES, attend_by_products, attention_forward

CLOSE = 2.5
"""How many times as far from exact as torch's kernel: scores are rounded to bf16 here, and in fp32 there."""
LONG = 2 * QUERIES + 44
MODELS: dict[str, dict[str, int]] = {
    "as many keys": {"heads": 6, "keys": 6},
    "shared keys": {"heads": 6, "keys": 2},
    "one key": {"heads": 6, "keys": 1},
    "narrow values": {"heads": 4, "keys": 2, "value_width": 8},
}


class Case:
    """Queries, keys and values of random numbers as layers hand them over, and the gradient of what comes out."""

    def __init__(
        self, tokens: int, *, heads: int, keys: int, value_width: int = 16, mask: torch.Tensor | None = None
    ) -> None:
        self.module, self.mask = nn.Module(), mask
        self.module.num_key_value_groups = heads // keys  # type: ignore[assignment]
        shapes = ((heads, 16), (keys, 16), (keys, value_width), (heads, value_width))
        random = torch.Generator().manual_seed(tokens)
        *inputs, self.gradient = (torch.randn(2, tokens, *shape, generator=random).bfloat16() for shape in shapes)
        self.inputs = [tensor.transpose(1, 2) for tensor in inputs]

    def run(self, forward: Any, dtype: torch.dtype = torch.bfloat16, **options: Any) -> list[torch.Tensor]:
        """The output, and the gradients of queries, keys and values."""
        leaves = [tensor.detach().to(dtype).requires_grad_() for tensor in self.inputs]
        out = forward(self.module, *leaves, self.mask, **options)[0]
        out.backward(self.gradient.to(dtype))
        assert all(leaf.grad is not None for leaf in leaves)
        return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def seen(tokens: int, kind: str) -> torch.Tensor | None:
    """A mask of two sequences, as transformers makes them; None: each token sees those before it."""
    at = torch.arange(tokens)
    before = at[:, None] >= at[None, :]
    if kind == "causal":
        return None
    if kind == "window":
        return (before & (at[:, None] - at[None, :] < 40)).expand(2, 1, -1, -1)
    if kind == "looks ahead":
        return (before | (at[None, :] < tokens // 2)).expand(2, 1, -1, -1)
    samples = torch.stack([at // 100, at // 70])  # packed: the two sequences are cut at different places
    return (before & (samples[:, :, None] == samples[:, None, :]))[:, None]


def far(found: list[torch.Tensor], exact: list[torch.Tensor]) -> list[float]:
    return [float((a.double() - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]


@pytest.mark.parametrize("kind", ["causal", "packed", "window", "looks ahead"])
@pytest.mark.parametrize("heads", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("tokens", [2, 77, QUERIES, LONG])
def test_output_and_gradients_are_as_close_to_exact_as_those_of_torch(
    tokens: int, heads: dict[str, int], kind: str
) -> None:
    case = Case(tokens, **heads, mask=seen(tokens, kind))
    exact = case.run(sdpa_attention_forward, torch.float64)
    theirs, ours = far(case.run(sdpa_attention_forward), exact), far(case.run(attention_forward), exact)
    for own, torchs in zip(ours, theirs, strict=True):
        assert own <= CLOSE * max(torchs, 2.0**-9)


@pytest.mark.parametrize("scaling", [0.11, 1.0])
def test_scores_are_scaled_as_the_layer_says(scaling: float) -> None:
    case = Case(LONG, heads=4, keys=2)
    exact = case.run(sdpa_attention_forward, torch.float64, scaling=scaling)
    assert max(far(case.run(attention_forward, scaling=scaling), exact)) < 0.02


@pytest.mark.parametrize("kind", ["causal", "packed"])
def test_bits_are_the_same_however_many_heads_are_multiplied_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(LONG, heads=6, keys=3, mask=seen(LONG, kind))
    together = case.run(attention_forward)
    monkeypatch.setattr(attention, "SCORE_BYTES", QUERIES * LONG * 2 * (6 // 3))  # those of one head of keys
    assert all(torch.equal(a, b) for a, b in zip(case.run(attention_forward), together, strict=True))


@pytest.mark.parametrize("kind", ["causal", "packed"])
def test_few_queries_at_a_time_give_the_same_numbers_where_sequences_are_long(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(LONG, heads=6, keys=3, mask=seen(LONG, kind))
    exact = case.run(sdpa_attention_forward, torch.float64)
    most: list[int] = []
    product = attention._product

    def noted(a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
        answer = product(a, b, scale)
        most.append(answer.numel())
        return answer

    monkeypatch.setattr(attention, "_product", noted)
    monkeypatch.setattr(attention, "SCORE_BYTES", 1)
    assert max(far(case.run(attention_forward), exact)) < 0.02
    assert 0 < max(most) <= (6 // 3) * attention.FEWEST_QUERIES * LONG


def test_what_a_query_may_not_see_never_reaches_it_or_its_gradient() -> None:
    case = Case(LONG, heads=4, keys=2, mask=seen(LONG, "packed"))
    out, *gradients = case.run(attention_forward)
    cut = 200  # where a third sample begins in the first sequence, within a block
    for tensor in case.inputs:
        tensor[0, :, cut:] = 1e4
    other_out, *other_gradients = case.run(attention_forward)
    assert torch.equal(other_out[0, :cut], out[0, :cut])
    for other, gradient in zip(other_gradients, gradients, strict=True):
        assert torch.equal(other[0, :, :cut], gradient[0, :, :cut])


def test_sequence_gives_the_same_alone_as_beside_another() -> None:
    case = Case(LONG, heads=4, keys=2, mask=seen(LONG, "packed"))
    both = case.run(attention_forward)
    assert case.mask is not None
    case.inputs, case.gradient, case.mask = [x[1:] for x in case.inputs], case.gradient[1:], case.mask[1:]
    assert all(torch.equal(a, b[1:]) for a, b in zip(case.run(attention_forward), both, strict=True))


def test_queries_that_see_nothing_stay_finite_and_teach_nothing() -> None:
    mask = torch.ones(LONG, LONG, dtype=torch.bool).tril()
    mask[: QUERIES + 5] = False  # a whole block, and some queries of the next
    case = Case(LONG, heads=4, keys=4, mask=mask.expand(2, 1, -1, -1))
    case.gradient[:, : QUERIES + 5] = 0.0
    out, dquery, *rest = case.run(attention_forward)
    assert all(bool(tensor.isfinite().all()) for tensor in (out, dquery, *rest))
    assert not bool(dquery[:, :, : QUERIES + 5].any())


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (torch.float32, {}), (torch.float16, {}), (torch.bfloat16, {"is_causal": False}),
        (torch.bfloat16, {"position_bias": torch.zeros(1, 4, 50, 50, dtype=torch.bfloat16)}),
    ],
    ids=["fp32", "fp16", "not causal", "bias"],
)  # fmt: skip
def test_what_is_not_ours_is_torchs_to_the_bit(dtype: torch.dtype, options: dict[str, Any]) -> None:
    case = Case(50, heads=4, keys=4)
    ours, theirs = case.run(attention_forward, dtype, **options), case.run(sdpa_attention_forward, dtype, **options)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_dropout_and_single_tokens_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def note(module: nn.Module, query: torch.Tensor, *args: Any, dropout: float, **kwargs: Any) -> tuple[None, None]:
        asked.append(dropout)
        return None, None

    monkeypatch.setattr(attention, "sdpa_attention_forward", note)
    case = Case(9, heads=4, keys=4)
    query, key, value = case.inputs
    attention_forward(case.module, query, key, value, None, dropout=0.1)
    attention_forward(case.module, query[:, :, :1], key, value, None)
    assert asked == [0.1, 0.0]


@pytest.mark.parametrize(("wanted", "got"), [("sdpa", NAME), ("eager", "eager")])
def test_model_is_asked_only_where_it_leaves_attention_to_torch(wanted: str, got: str) -> None:
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, attn_implementation=wanted)
    attend_by_products(model)
    assert model.config._attn_implementation == got
