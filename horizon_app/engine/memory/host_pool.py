"""The host tier: every plane of every block in RAM. The authoritative copy of the model.

Planes are flat tensors over the pool's address space, allocated once. With fp32 compute the weight plane is the master
plane itself; otherwise it is a copy in the compute dtype that the optimizer rewrites.
"""

from typing import Any

import torch

from horizon_app.engine.memory.geometry import Block, Parameter, Partition, Segment


class HostPool:
    """fp32 masters, moments and gradients, and the weights in the compute dtype."""

    def __init__(self, partition: Partition, compute_dtype: torch.dtype, *, pinned: bool = False) -> None:
        self._partition = partition
        size = partition.numel
        self.master = torch.zeros(size, dtype=torch.float32)
        self.exp_avg = torch.zeros(size, dtype=torch.float32)
        self.exp_avg_sq = torch.zeros(size, dtype=torch.float32)
        self.grad = torch.zeros(size, dtype=torch.float32)
        self.weight = self.master if compute_dtype == torch.float32 else torch.zeros(size, dtype=compute_dtype)
        self._pinned: list[torch.Tensor] = []
        if pinned:
            self._pin(self.weight)

    @property
    def num_bytes(self) -> int:
        """Bytes of all planes."""
        planes = {p.data_ptr(): p for p in (self.master, self.exp_avg, self.exp_avg_sq, self.grad, self.weight)}
        return sum(p.numel() * p.element_size() for p in planes.values())

    def block_weight(self, block: Block) -> torch.Tensor:
        """The block's weights in the compute dtype. Shape: [elements of the block]."""
        return self.weight[block.pool_start : block.pool_end]

    def segment_grad(self, segment: Segment) -> torch.Tensor:
        """Where the segment's gradient is gathered. Shape: [elements of the segment], fp32."""
        return self.grad[segment.pool_start : segment.pool_start + segment.numel]

    def parameter_view(self, plane: torch.Tensor, parameter: Parameter) -> torch.Tensor:
        """A parameter on one plane, in its own shape, sharing memory."""
        return plane[parameter.pool_start : parameter.pool_start + parameter.numel].view(parameter.shape)

    def refresh_weights(self) -> None:
        """Recompute the compute-dtype weights from the masters."""
        if self.weight is not self.master:
            self.weight.copy_(self.master)

    def close(self) -> None:
        """Give back page locks."""
        for tensor in self._pinned:
            _cudart().cudaHostUnregister(tensor.data_ptr())
        self._pinned.clear()

    def _pin(self, tensor: torch.Tensor) -> None:
        # Registered in place at its exact size: the caching pinned allocator rounds up to a power of two.
        code = _cudart().cudaHostRegister(tensor.data_ptr(), tensor.numel() * tensor.element_size(), 0)
        if int(code) != 0:
            raise MemoryError(f"cudaHostRegister of {tensor.numel() * tensor.element_size()} bytes failed: {code}")
        self._pinned.append(tensor)


def _cudart() -> Any:
    """The CUDA runtime; torch has no types for it."""
    return torch.cuda.cudart()
