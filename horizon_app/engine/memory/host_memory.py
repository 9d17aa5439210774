"""Anonymous memory of an exact size, apart from the allocator that activations come from.

Large planes are mappings of their own: what the allocator keeps for reuse is never mixed with them, they are given back
whole, and on systems with transparent huge pages they ask for them, since each is walked from end to end every step.
"""

import contextlib
import mmap

import torch


def new_memory(numel: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeroed memory, aligned to a page. Shape: [numel]."""
    num_bytes = max(1, numel * dtype.itemsize)
    mapping = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError, AttributeError):  # only advice
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(mapping, dtype=dtype, count=numel) if numel else torch.empty(0, dtype=dtype)
