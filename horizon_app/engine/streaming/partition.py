"""Cuts a model's parameters into blocks. Pure arithmetic on shapes; decides which products run as one."""

from collections.abc import Sequence

from horizon_app.engine.errors import BlockTooSmall
from horizon_app.engine.memory.geometry import Block, Parameter, ParameterFacts, Partition, Segment, Use

ALIGN = 16
"""Parameters start at multiples of this many elements, so that vector loads are aligned in every slot."""

ROW_MULTIPLE = 32
"""Cuts inside a parameter fall on multiples of this many rows where a block has room: matrix units like whole tiles."""

MIN_FILL = 8
"""A parameter is cut to fill a block's rest only where the rest is at least 1/MIN_FILL of the block: a sliver costs a
product of its own and saves nothing."""


def partition(
    stages: Sequence[tuple[str, Sequence[ParameterFacts]]], *, block_bytes: int, element_bytes: int
) -> Partition:
    """Pack each stage's parameters, in the order given, into blocks of `block_bytes` bytes.

    A stage starts a new block. Gathered parameters should come first, so that they share few blocks. Raises
    BlockTooSmall where one row of a linear layer is larger than a block.
    """
    builder = _Builder(block_bytes // element_bytes, block_bytes, element_bytes)
    for stage, (_, parameters) in enumerate(stages):
        builder.start_stage(stage)
        for facts in parameters:
            builder.place(facts)
        builder.end_block()
    return Partition(
        block_numel=builder.block_numel, parameters=tuple(builder.parameters), segments=tuple(builder.segments),
        blocks=tuple(builder.blocks), stage_names=tuple(name for name, _ in stages),
        segments_of=tuple(tuple(s) for s in builder.segments_of),
    )  # fmt: skip


class _Builder:
    def __init__(self, block_numel: int, block_bytes: int, element_bytes: int) -> None:
        self.block_numel, self.block_bytes, self.element_bytes = block_numel, block_bytes, element_bytes
        self.parameters: list[Parameter] = []
        self.segments: list[Segment] = []
        self.segments_of: list[list[int]] = []
        self.blocks: list[Block] = []
        self.stage = 0
        self.block_start = 0  # pool position of the open block
        self.cursor = 0  # next free pool position

    def start_stage(self, stage: int) -> None:
        self.stage = stage

    def end_block(self) -> None:
        if self.cursor > self.block_start:
            self.blocks.append(
                Block(index=len(self.blocks), stage=self.stage, pool_start=self.block_start, pool_end=self.cursor)
            )
        self.block_start = self.cursor

    def _room(self) -> int:
        return self.block_numel - (self.cursor - self.block_start)

    def place(self, facts: ParameterFacts) -> None:
        numel = 1
        for size in facts.shape:
            numel *= size
        rows, width = self._rows(facts, numel)
        padding = -(self.cursor - self.block_start) % ALIGN
        fits = self._room() - padding >= numel
        if not fits and (self._room() - padding) * MIN_FILL < self.block_numel:
            self.end_block()
        elif self.cursor > self.block_start:
            self.cursor += padding
            if self._room() < width:
                self.end_block()
        index = len(self.parameters)
        self.parameters.append(
            Parameter(
                index=index, name=facts.name, shape=facts.shape, use=facts.use, stage=self.stage,
                pool_start=self.cursor, decay=facts.decay,
            )
        )  # fmt: skip
        self.segments_of.append([])
        row = 0
        while row < rows:
            take = self._rows_now(rows - row, width)
            if take == 0:
                self.end_block()
                continue
            self._add_segment(index, row, row + take, width)
            row += take
            if row < rows:  # what a cut at whole tiles leaves over would only be a sliver
                self.end_block()

    def _rows(self, facts: ParameterFacts, numel: int) -> tuple[int, int]:
        """Rows and their width; gathered and looked-up parameters may be cut at any element if a row is too wide."""
        rows = facts.shape[0] if len(facts.shape) > 1 else 1
        width = numel // rows if rows else numel
        if width <= self.block_numel:
            return (rows, width) if len(facts.shape) > 1 else (numel, 1)
        if facts.use in (Use.LINEAR, Use.CONV1D, Use.LOOKUP):
            raise BlockTooSmall(
                parameter=facts.name, row_bytes=width * self.element_bytes, block_bytes=self.block_bytes
            )
        return numel, 1

    def _rows_now(self, rows_left: int, width: int) -> int:
        room = self._room() // width
        if room >= rows_left:
            return rows_left
        return room - room % ROW_MULTIPLE if room >= ROW_MULTIPLE and width > 1 else room

    def _add_segment(self, parameter: int, row_start: int, row_end: int, width: int) -> None:
        numel = (row_end - row_start) * width
        segment = Segment(
            index=len(self.segments), parameter=parameter, block=len(self.blocks),
            block_start=self.cursor - self.block_start, pool_start=self.cursor, numel=numel,
            row_start=row_start, row_end=row_end,
        )  # fmt: skip
        self.segments.append(segment)
        self.segments_of[parameter].append(segment.index)
        self.cursor += numel
