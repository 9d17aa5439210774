"""What is asked of an engine besides training, and what it answers. Plain values; importing them is cheap."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

OnTokens = Callable[[list[int | None]], bool]
"""Told the new token of each prompt (None where it has ended), answers whether to go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What an evaluation found."""

    loss: float  # nats a token
    num_tokens: int

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that is beyond a float."""
        try:
            return math.exp(self.loss)
        except OverflowError:
            return math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How the next token is chosen, and when it ends."""

    max_new_tokens: int
    temperature: float = 0.0  # 0 takes the likeliest token
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    stop_ids: frozenset[int] = frozenset()
    seed: int = 0


class Ending(StrEnum):
    """Why no more tokens came."""

    STOP = "stop"  # a stop id was generated
    LENGTH = "length"  # as many as asked for, or as the model has positions for
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation:
    """What was generated behind one prompt; a stop id is not part of it."""

    tokens: tuple[int, ...]
    ending: Ending
