import pytest
import torch

from horizon_app.engine.optim.clipping import clip_factor, global_norm


@pytest.mark.parametrize("max_norm", [0.1, 1.0, 5.0, 1e6])
def test_clip_factor_equals_clip_grad_norm(max_norm: float) -> None:
    torch.manual_seed(0)
    leaves = [torch.nn.Parameter(torch.zeros(size)) for size in (3, 100, 17)]
    for leaf in leaves:
        leaf.grad = torch.randn_like(leaf)
    before = [leaf.grad.clone() for leaf in leaves if leaf.grad is not None]
    squares = torch.stack([torch.linalg.vector_norm(grad).double() ** 2 for grad in before])
    norm = global_norm(squares)
    assert norm == pytest.approx(float(torch.nn.utils.clip_grad_norm_(leaves, max_norm)), rel=1e-6)
    factor = clip_factor(norm, max_norm)
    for grad, leaf in zip(before, leaves, strict=True):
        torch.testing.assert_close(grad * factor, leaf.grad, rtol=1e-6, atol=0.0)


def test_clip_factor_small_norm_leaves_gradients_as_they_are() -> None:
    assert clip_factor(0.3, 1.0) == 1.0
    assert clip_factor(0.0, 1.0) == 1.0


def test_clip_factor_zero_bound_means_no_clipping() -> None:
    assert clip_factor(1e9, 0.0) == 1.0


def test_global_norm_of_nothing_is_zero_and_of_nan_is_nan() -> None:
    assert global_norm(torch.zeros(0, dtype=torch.float64)) == 0.0
    assert global_norm(torch.tensor([1.0, float("nan")], dtype=torch.float64)) != global_norm(torch.ones(1))
    assert not global_norm(torch.tensor([float("inf")], dtype=torch.float64)) < float("inf")
