"""Passes upwards without gradients, through the same stages and the same arena as training's.

Shape suffixes: S sequences, T tokens of a sequence, H width.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from horizon_app.engine.model.staged import SeenTokens
from horizon_app.engine.streaming.host_order import expect_forward
from horizon_app.engine.streaming.schedule import Schedule, build_forward_schedule
from horizon_app.engine.training.random_state import random_state, set_random_state
from horizon_app.engine.training.stages import Stages

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """Sequences that pass the stages in one call."""

    input_ids: torch.Tensor  # [S, T]
    position_ids: torch.Tensor  # [S, T]
    seen: SeenTokens | None = None
    head_chunks: int = 1  # calls of the LM head that it takes


class ForwardPass:
    """Takes groups of passages upwards, stage by stage, so that the weights travel once for the whole group."""

    def __init__(self, stages: Stages, on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called when passes end: they have told the host tier another order of accesses."""
        self._stages, self._on_end = stages, on_end
        self._schedule: tuple[tuple[int, ...], Schedule] | None = None

    @contextmanager
    def opened(self) -> Generator[None]:
        """Where `run` may be called: without gradients and dropout. Training's random numbers stay as they are."""
        device = self._stages.model.device
        dice = random_state(device)
        try:
            with torch.no_grad(), self._stages.model.evaluating():
                yield
        finally:
            self._stages.streamer.release_current()
            self._stages.model.forget_rows()
            set_random_state(dice, device)
            self._schedule = None
            self._on_end()

    def run(self, group: Sequence[Passage], head: Callable[[int, torch.Tensor], Answer]) -> list[Answer]:
        """What `head(index, hidden_STH)` makes of the last layer's output of each passage, with the head's weights."""
        stages, model = self._stages, self._stages.model
        self._begin(tuple(passage.head_chunks for passage in group))
        stages.enter_embedding()
        prologues = [model.prologue(p.input_ids, p.position_ids, p.seen) for p in group]
        hidden = [prologue.hidden for prologue in prologues]
        for stage in range(1, model.num_layers + 1):
            stages.enter(stage)
            gathered = stages.fill(stage)
            for i, prologue in enumerate(prologues):
                hidden[i] = model.layer(stage - 1, hidden[i], prologue.calls[stage - 1], gathered)
            model.router.take()  # its loss is training's alone
        stages.enter(stages.head)
        return [head(i, hidden_STH) for i, hidden_STH in enumerate(hidden)]

    def _begin(self, head_chunks: tuple[int, ...]) -> None:
        stages = self._stages
        if self._schedule is None or self._schedule[0] != head_chunks:
            schedule = build_forward_schedule(stages.orders, stages.gathered_blocks, head_chunks)
            self._schedule = head_chunks, schedule
            expect_forward(stages.pool, stages.partition, schedule)
        stages.begin(self._schedule[1])
