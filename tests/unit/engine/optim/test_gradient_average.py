"""The moving average over gradients against a loop in fp64."""

import numpy as np
import pytest
import torch

from horizon_app.engine.optim.gradient_average import average_


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("in_place", [False, True])
def test_average_over_steps_equals_the_formula_in_fp64(decay: float, in_place: bool) -> None:
    rng = np.random.default_rng(0)
    average, expected = torch.zeros(1000), np.zeros(1000)
    for step in range(1, 31):
        given = rng.standard_normal(1000).astype(np.float32)
        gradient = torch.from_numpy(given.copy())
        out = gradient if in_place else torch.empty(1000)
        average_(average, gradient, decay, step, out)
        expected = decay * expected + (1.0 - decay) * given.astype(np.float64)
        np.testing.assert_allclose(out.numpy(), expected / (1.0 - decay**step), rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(average.numpy(), expected, rtol=2e-5, atol=2e-6)


def test_average_of_the_first_step_is_its_gradient() -> None:
    gradient = torch.tensor([1.5, -2.0, 0.0])
    out = torch.empty(3)
    average_(torch.zeros(3), gradient, 0.98, 1, out)
    torch.testing.assert_close(out, gradient)


def test_average_without_decay_is_the_gradient_itself() -> None:
    average, out = torch.full((2,), 9.0), torch.empty(2)
    average_(average, torch.tensor([1.0, 2.0]), 0.0, 7, out)
    assert out.tolist() == [1.0, 2.0]
