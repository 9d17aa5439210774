import pytest
import torch
import torch.nn.functional as F

from horizon_app.engine.training.loss import ROWS_AT_ONCE, SummedCrossEntropy, chunk_tokens


@pytest.mark.parametrize("tokens", [1, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 5])
@pytest.mark.parametrize("scale", [1.0, 1 / 37])
def test_summed_cross_entropy_equals_torch_with_its_gradient(tokens: int, scale: float) -> None:
    torch.manual_seed(tokens)
    logits = (torch.randn(tokens, 61) * 4).requires_grad_()
    targets = torch.randint(0, 61, (tokens,))
    expected = F.cross_entropy(logits.double(), targets, reduction="sum")
    (expected_gradient,) = torch.autograd.grad(expected * scale, logits)
    loss = SummedCrossEntropy.apply(logits, targets, scale)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
    torch.testing.assert_close(logits.grad, expected_gradient, rtol=1e-5, atol=1e-7)


def test_summed_cross_entropy_bf16_logits_are_summed_in_fp32() -> None:
    torch.manual_seed(0)
    logits = (torch.randn(300, 50) * 3).bfloat16().requires_grad_()
    targets = torch.randint(0, 50, (300,))
    expected = F.cross_entropy(logits.double(), targets, reduction="sum")
    loss = SummedCrossEntropy.apply(logits, targets, 0.5)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert logits.grad is not None and logits.grad.dtype is torch.bfloat16
    (wide,) = torch.autograd.grad(expected * 0.5, logits)
    torch.testing.assert_close(logits.grad, wide, rtol=1e-2, atol=1e-3)


def test_summed_cross_entropy_far_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    loss = SummedCrossEntropy.apply(logits, torch.tensor([1]), 1.0)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(2e4)
    assert logits.grad is not None
    assert logits.grad.tolist() == [[1.0, -1.0, 0.0]]


@pytest.mark.parametrize(
    ("vocabulary", "element_bytes", "budget", "expected"),
    [
        (1000, 4, 4000 * 300, 256),
        (1000, 4, 4000 * 128, 128),
        (1000, 4, 4000 * 127, 127),
        (1000, 2, 4000 * 127, 128),
        (1000, 4, 10, 1),
    ],
)
def test_chunk_tokens_fill_the_budget_in_whole_groups(
    vocabulary: int, element_bytes: int, budget: int, expected: int
) -> None:
    tokens = chunk_tokens(vocabulary, element_bytes, budget)
    assert tokens == expected
    assert tokens == 1 or tokens * vocabulary * element_bytes <= budget
