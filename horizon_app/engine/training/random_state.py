"""The random states that dropout draws from, kept and put back: for a layer computed twice, and for a run resumed."""

import torch

_CPU, _CUDA = "cpu", "cuda"


def random_state(device: torch.device) -> torch.Tensor:
    """The device's generator's state now."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_random_state(state: torch.Tensor, device: torch.device) -> None:
    """Go back to a state."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def all_random_states(device: torch.device) -> dict[str, torch.Tensor]:
    """The states of the CPU and, where that is the device, of the card."""
    states = {_CPU: torch.get_rng_state()}
    return states | {_CUDA: torch.cuda.get_rng_state(device)} if device.type == "cuda" else states


def set_all_random_states(states: dict[str, torch.Tensor], device: torch.device) -> None:
    """Go back to them; a run that was on another kind of device keeps that one's fresh state. Raises KeyError."""
    torch.set_rng_state(states[_CPU])
    if device.type == "cuda" and _CUDA in states:
        torch.cuda.set_rng_state(states[_CUDA], device)
