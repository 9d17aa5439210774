"""Blocks, segments and parameters: where each element of the model lies. Plain numbers, no tensors.

The model's elements form one address space, the pool: stage after stage, block after block, without holes between the
blocks. A parameter that spans several blocks is therefore contiguous in the pool, on every plane.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Use(StrEnum):
    """How a parameter takes part in the compute; decides how it is streamed."""

    LINEAR = "linear"  # [out, in]: y[:, rows] = x @ W[rows].T, block by block
    CONV1D = "conv1d"  # [in, out]: y += x[:, rows] @ W[rows], block by block
    GATHER = "gather"  # anything else: copied to a workspace for the length of a compute step
    LOOKUP = "lookup"  # embedding: the rows of the tokens are looked up on the host


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterFacts:
    """A parameter before it has a place."""

    name: str
    shape: tuple[int, ...]
    use: Use
    decay: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One trained tensor of the model. `rows` x `columns` is its shape as the partition sees it."""

    index: int
    name: str
    shape: tuple[int, ...]
    use: Use
    stage: int
    pool_start: int
    decay: bool

    @property
    def numel(self) -> int:
        """Number of elements."""
        total = 1
        for size in self.shape:
            total *= size
        return total


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """Consecutive elements of one parameter inside one block; whole rows for `linear` and `conv1d`."""

    index: int
    parameter: int
    block: int
    block_start: int
    pool_start: int
    numel: int
    row_start: int
    row_end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """The unit of residency and transfer: pool elements [`pool_start`, `pool_end`)."""

    index: int
    stage: int
    pool_start: int
    pool_end: int

    @property
    def numel(self) -> int:
        """Elements in use."""
        return self.pool_end - self.pool_start


@dataclass(frozen=True, kw_only=True)
class Partition:
    """The whole model, cut into blocks of at most `block_numel` elements."""

    block_numel: int
    parameters: tuple[Parameter, ...]
    segments: tuple[Segment, ...]
    blocks: tuple[Block, ...]
    stage_names: tuple[str, ...]
    segments_of: tuple[tuple[int, ...], ...]  # parameter -> its segments, in row order

    @property
    def numel(self) -> int:
        """Elements of the pool (padding between parameters included)."""
        return self.blocks[-1].pool_end if self.blocks else 0

    @cached_property
    def stage_blocks(self) -> tuple[tuple[Block, ...], ...]:
        """The blocks of each stage, in order."""
        found: list[list[Block]] = [[] for _ in self.stage_names]
        for block in self.blocks:
            found[block.stage].append(block)
        return tuple(tuple(blocks) for blocks in found)

    @cached_property
    def by_name(self) -> dict[str, Parameter]:
        """Every parameter by its name in the model."""
        return {parameter.name: parameter for parameter in self.parameters}

    def segments_in(self, parameter: Parameter) -> tuple[Segment, ...]:
        """The parameter's segments, in row order."""
        return tuple(self.segments[i] for i in self.segments_of[parameter.index])
