"""From a device to its backend."""

import torch

from horizon_app.engine.streaming.backends.protocol import Backend


def make_backend(device: torch.device) -> Backend:
    """The backend of `device`, with its threads running."""
    if device.type == "cuda":
        from horizon_app.engine.streaming.backends.cuda import CudaBackend

        return CudaBackend(device)
    from horizon_app.engine.streaming.backends.cpu import CpuBackend

    return CpuBackend()
