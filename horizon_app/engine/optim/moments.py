"""The two moments of AdamW as the kernel wants them, fp32, whatever they are stored as."""

from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

import torch

from horizon_app.engine.memory.geometry import Block
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.memory.planes import Opening, PlaneName
from horizon_app.engine.optim.moments8 import pack_signed, pack_unsigned, unpack_signed, unpack_unsigned

Pair = tuple[torch.Tensor, torch.Tensor]


class OpenMoments(Protocol):
    """Both moments of one block."""

    def chunk(self, start: int, end: int) -> AbstractContextManager[Pair]:
        """Elements [start, end) of both, fp32; what is written to them is kept when the context ends."""
        ...


class Moments(Protocol):
    """How moments are stored."""

    def open(self, stack: ExitStack, pool: HostPool, block: Block) -> OpenMoments:
        """Open both moments of a block until `stack` is closed."""
        ...


class FullMoments:
    """fp32."""

    def open(self, stack: ExitStack, pool: HostPool, block: Block) -> "_OpenFull":
        """See Moments."""
        return _OpenFull(*_open_both(stack, pool, block))


class _OpenFull:
    def __init__(self, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor) -> None:
        self._pair = exp_avg, exp_avg_sq

    @contextmanager
    def chunk(self, start: int, end: int) -> Generator[Pair]:
        yield self._pair[0][start:end], self._pair[1][start:end]


class PackedMoments:
    """8 bits an element, with a scale for each run of elements; unpacked chunk by chunk into scratch."""

    def __init__(self, chunk: int) -> None:
        """`chunk` is the most elements asked for at once."""
        self._scratch = torch.zeros(2, chunk)

    def open(self, stack: ExitStack, pool: HostPool, block: Block) -> "_OpenPacked":
        """See Moments."""
        return _OpenPacked(*_open_both(stack, pool, block), self._scratch, block.numel)


class _OpenPacked:
    def __init__(self, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor, scratch: torch.Tensor, numel: int) -> None:
        self._exp_avg, self._exp_avg_sq, self._scratch, self._numel = exp_avg, exp_avg_sq, scratch, numel

    @contextmanager
    def chunk(self, start: int, end: int) -> Generator[Pair]:
        first, second = self._scratch[0, : end - start], self._scratch[1, : end - start]
        unpack_signed(self._exp_avg, start, end, self._numel, first)
        unpack_unsigned(self._exp_avg_sq, start, end, self._numel, second)
        yield first, second
        pack_signed(first, self._exp_avg, start, end, self._numel)
        pack_unsigned(second, self._exp_avg_sq, start, end, self._numel)


def _open_both(stack: ExitStack, pool: HostPool, block: Block) -> Pair:
    names = (PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ)
    exp_avg, exp_avg_sq = (stack.enter_context(_span(pool, name, block)) for name in names)
    return exp_avg, exp_avg_sq


def _span(pool: HostPool, name: PlaneName, block: Block) -> AbstractContextManager[torch.Tensor]:
    return pool.planes[name].opened(block.index, Opening.CHANGE)  # the whole page: packed ones count in bytes
