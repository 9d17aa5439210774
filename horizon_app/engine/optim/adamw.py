"""AdamW on the host, block by block, with torch's fused kernel; writes the compute-dtype weights in the same pass."""

from dataclasses import dataclass

import torch

from horizon_app.engine.memory.geometry import Block, Partition
from horizon_app.engine.memory.host_pool import HostPool

CHUNK = 1 << 20
"""Elements updated and cast at a time: 4 fp32 planes of it stay in cache until the cast has read the masters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdamWConfig:
    """What does not change over a run."""

    betas: tuple[float, float]
    eps: float
    weight_decay: float


@dataclass(frozen=True, slots=True)
class _Range:
    start: int
    end: int
    decay: bool


class HostAdamW:
    """Decoupled weight decay as `torch.optim.AdamW` defines it; no decay on vectors (norms and biases)."""

    def __init__(self, partition: Partition, pool: HostPool, config: AdamWConfig, trained: frozenset[int]) -> None:
        """`trained` holds the parameters that get gradients; the others are left alone, as torch does."""
        self._pool, self._config = pool, config
        self._ranges: list[list[_Range]] = [[] for _ in partition.blocks]
        for segment in partition.segments:
            parameter = partition.parameters[segment.parameter]
            if segment.parameter in trained:
                self._append(self._ranges[segment.block], segment.pool_start, segment.numel, decay=parameter.decay)

    def update(self, block: Block, *, step: int, learning_rate: float, clip: float) -> None:
        """One update of a block. `step` counts from 1; gradients are multiplied by `clip` (at most 1)."""
        for span in self._ranges[block.index]:
            for start in range(span.start, span.end, CHUNK):
                self._update(start, min(start + CHUNK, span.end), span.decay, step, learning_rate, clip)

    def _update(self, start: int, end: int, decay: bool, step: int, learning_rate: float, clip: float) -> None:
        pool, config = self._pool, self._config
        torch._fused_adamw_(  # the kernel of torch.optim.AdamW(fused=True), without its per-parameter bookkeeping
            [pool.master[start:end]], [pool.grad[start:end]], [pool.exp_avg[start:end]], [pool.exp_avg_sq[start:end]],
            [], [torch.tensor(float(step))], lr=learning_rate, beta1=config.betas[0], beta2=config.betas[1],
            weight_decay=config.weight_decay if decay else 0.0, eps=config.eps, amsgrad=False, maximize=False,
            grad_scale=None if clip == 1.0 else torch.tensor(1.0 / clip), found_inf=None,
        )  # fmt: skip
        if pool.weight is not pool.master:
            pool.weight[start:end].copy_(pool.master[start:end])

    @staticmethod
    def _append(ranges: list[_Range], start: int, numel: int, *, decay: bool) -> None:
        """Neighbours with the same decay become one range; the padding between them holds zeros and stays zero."""
        if ranges and ranges[-1].decay == decay and start - ranges[-1].end < 16:
            ranges[-1] = _Range(ranges[-1].start, start + numel, decay)
        else:
            ranges.append(_Range(start, start + numel, decay))
