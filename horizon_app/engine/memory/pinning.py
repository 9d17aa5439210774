"""Page-locked host memory, which a GPU copies from without the host's help."""

from typing import Any

import torch


class PinnedMemory:
    """Registers memory in place at its exact size: the caching pinned allocator rounds up to a power of two."""

    def __init__(self) -> None:
        self._locked: list[torch.Tensor] = []

    def add(self, tensor: torch.Tensor) -> None:
        """Lock a tensor's pages. Raises MemoryError where the driver refuses."""
        num_bytes = tensor.numel() * tensor.element_size()
        code = _cudart().cudaHostRegister(tensor.data_ptr(), num_bytes, 0)
        if int(code) != 0:
            raise MemoryError(f"cudaHostRegister of {num_bytes} bytes failed: {code}")
        self._locked.append(tensor)

    def close(self) -> None:
        """Unlock everything."""
        for tensor in self._locked:
            _cudart().cudaHostUnregister(tensor.data_ptr())
        self._locked.clear()


def _cudart() -> Any:
    """The CUDA runtime; torch has no types for it."""
    return torch.cuda.cudart()
