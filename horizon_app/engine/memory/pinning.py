"""Page-locked host memory, which a GPU copies from without the host's help."""

import logging
from typing import Any

import torch

_log = logging.getLogger(__name__)


class PinnedMemory:
    """Registers memory in place at its exact size: the caching pinned allocator rounds up to a power of two.

    What the driver does not lock (a container may allow little) stays pageable: copies from there are slower and give
    the same bits. That is told once.
    """

    def __init__(self) -> None:
        self._locked: list[torch.Tensor] = []
        self.pageable_bytes = 0

    def add(self, tensor: torch.Tensor) -> None:
        """Lock a tensor's pages, if the driver does."""
        num_bytes = tensor.numel() * tensor.element_size()
        code = register(tensor.data_ptr(), num_bytes)
        if code == 0:
            self._locked.append(tensor)
            return
        if not self.pageable_bytes:
            _log.warning(
                "host memory can't all be page-locked (%d bytes refused with CUDA error %d, %d bytes are locked): the "
                "rest is copied from pageable memory, which is slower and gives the same numbers; raise the limit of "
                "locked memory (ulimit -l, or the container's) to change that",
                num_bytes, code, sum(locked.numel() * locked.element_size() for locked in self._locked),
            )  # fmt: skip
        self.pageable_bytes += num_bytes

    def close(self) -> None:
        """Unlock everything."""
        for tensor in self._locked:
            unregister(tensor.data_ptr())
        self._locked.clear()


def register(address: int, num_bytes: int) -> int:
    """Lock memory; gives the driver's error code, 0 for none."""
    return int(_cudart().cudaHostRegister(address, num_bytes, 0))


def unregister(address: int) -> None:
    """Unlock memory."""
    _cudart().cudaHostUnregister(address)


def _cudart() -> Any:
    """The CUDA runtime; torch has no types for it."""
    return torch.cuda.cudart()
