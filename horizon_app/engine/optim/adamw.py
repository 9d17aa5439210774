"""AdamW on the host, block by block, with torch's fused kernel; writes the compute-dtype weights in the same pass."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from horizon_app.engine.memory.geometry import Block, Partition
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import Opening, PlaneName
from horizon_app.engine.optim.gradient_average import average_
from horizon_app.engine.optim.moments import Moments

CHUNK = 1 << 20
"""Elements updated and cast at a time: 4 fp32 planes of it stay in cache until the cast has read the masters."""
MOST_PADDING = 16
"""Elements between two parameters of a block at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdamWConfig:
    """What does not change over a run."""

    betas: tuple[float, float]
    eps: float
    weight_decay: float
    gradient_ema: float = 0.0  # decay of the moving average over gradients; 0 is off


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """What is the same for all blocks in one optimizer step."""

    step: int  # counted from 1
    learning_rate: float
    factor: float  # gradients are multiplied by it: clipping, and the loss scale taken out


@dataclass(frozen=True, slots=True)
class _Range:
    start: int
    end: int
    decay: bool
    trained: bool


class HostAdamW:
    """Decoupled weight decay as `torch.optim.AdamW` defines it; no decay on vectors (norms and biases)."""

    def __init__(
        self, partition: Partition, pool: HostPool, config: AdamWConfig, moments: Moments, trained: frozenset[int]
    ) -> None:
        """`trained` holds the parameters that get gradients; the others are left alone, as torch does."""
        self._pool, self._config, self._moments = pool, config, moments
        self._ranges: list[list[_Range]] = [[] for _ in partition.blocks]
        for segment in partition.segments:
            decay = partition.parameters[segment.parameter].decay
            start, end = segment.block_start, segment.block_start + segment.numel
            _append(self._ranges[segment.block], _Range(start, end, decay, segment.parameter in trained))

    def update(self, block: Block, update: Update) -> None:
        """One update of a block; its gradient is used up. Raises EngineError where the disk fails."""
        pool, ranges = self._pool, self._ranges[block.index]
        with ExitStack() as stack:

            def opened(name: PlaneName, opening: Opening) -> torch.Tensor:
                return stack.enter_context(pool.block(name, block).opened(opening))

            gradient = opened(PlaneName.GRAD, Opening.CONSUME)
            master = opened(PlaneName.MASTER, Opening.CHANGE)
            weight = None
            if pool.planes[PlaneName.WEIGHT] is not pool.planes[PlaneName.MASTER]:
                weight = opened(PlaneName.WEIGHT, Opening.FILL)
            moments = self._moments.open(stack, pool, block)
            average = opened(PlaneName.GRAD_AVERAGE, Opening.CHANGE) if self._config.gradient_ema else None
            for start in range(0, block.numel, CHUNK):
                end = min(start + CHUNK, block.numel)
                with moments.chunk(start, end) as (exp_avg, exp_avg_sq):
                    for span in _within(ranges, start, end):
                        part, own = slice(span.start, span.end), slice(span.start - start, span.end - start)
                        if not span.trained:
                            continue
                        self._update(
                            master[part], self._averaged(gradient[part], average, part, update), exp_avg[own],
                            exp_avg_sq[own], decay=span.decay, update=update,
                        )  # fmt: skip
                if weight is not None:
                    weight[start:end].copy_(master[start:end])

    def _averaged(
        self, gradient: torch.Tensor, average: torch.Tensor | None, part: slice, update: Update
    ) -> torch.Tensor:
        if average is not None:
            gradient.mul_(update.factor)
            average_(average[part], gradient, self._config.gradient_ema, update.step, out=gradient)
        return gradient

    def _update(
        self, master: torch.Tensor, gradient: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor, *,
        decay: bool, update: Update,
    ) -> None:  # fmt: skip
        config = self._config
        factor = 1.0 if config.gradient_ema else update.factor  # the average has taken it in already
        torch._fused_adamw_(  # the kernel of torch.optim.AdamW(fused=True), without its per-parameter bookkeeping
            [master], [gradient], [exp_avg], [exp_avg_sq], [], [torch.tensor(float(update.step))],
            lr=update.learning_rate, beta1=config.betas[0], beta2=config.betas[1],
            weight_decay=config.weight_decay if decay else 0.0, eps=config.eps, amsgrad=False, maximize=False,
            grad_scale=None if factor == 1.0 else torch.tensor(1.0 / factor), found_inf=None,
        )  # fmt: skip


def _within(ranges: list[_Range], start: int, end: int) -> Iterator[_Range]:
    for span in ranges:
        if span.start < end and span.end > start:
            yield _Range(max(span.start, start), min(span.end, end), span.decay, span.trained)


def _append(ranges: list[_Range], new: _Range) -> None:
    """Neighbours that are treated alike become one range; the padding between them holds zeros and stays zero."""
    last = ranges[-1] if ranges else None
    alike = last is not None and (last.decay, last.trained) == (new.decay, new.trained)
    if last is not None and alike and new.start - last.end < MOST_PADDING:
        ranges[-1] = _Range(last.start, new.end, new.decay, new.trained)
    else:
        ranges.append(new)
