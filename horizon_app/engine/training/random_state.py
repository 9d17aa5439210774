"""The random state that dropout draws from, kept and put back so that a layer computed twice draws the same."""

import torch


def random_state(device: torch.device) -> torch.Tensor:
    """The generator's state now."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_random_state(state: torch.Tensor, device: torch.device) -> None:
    """Go back to a state."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
