"""A plane that lies in RAM whole: opening a page costs nothing."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from horizon_app.engine.memory.host_memory import new_memory
from horizon_app.engine.memory.planes import DiskState, Opening, Visit


class ResidentPlane:
    """All pages one behind the other."""

    is_paged = False

    def __init__(self, page_starts: Sequence[int], dtype: torch.dtype) -> None:
        """`page_starts` holds the first element of each page, and the end of the last."""
        self._starts = tuple(page_starts)
        self.whole = new_memory(self._starts[-1], dtype)
        self.memory = (self.whole,)
        self.num_bytes = self.whole.numel() * self.whole.element_size()

    def page(self, page: int) -> torch.Tensor:
        """The page's memory. Shape: [elements of the page]."""
        return self.whole[self._starts[page] : self._starts[page + 1]]

    def opened(self, page: int, opening: Opening) -> AbstractContextManager[torch.Tensor]:
        """See Plane; a page opened to be filled starts from what was there, which is what nobody may rely on."""
        return nullcontext(self.page(page))

    def read_straight(self, page: int, memory: torch.Tensor) -> None:
        """Never: all is in RAM."""

    def expect(self, visits: Sequence[Visit], *, from_second_cycle: frozenset[Opening] = frozenset()) -> None:
        """Nothing to prepare."""

    def forget(self, page: int) -> None:
        """Whoever opens the page next writes all that counts."""

    def on_disk(self, page: int) -> DiskState:
        """Always in RAM."""
        return DiskState.IN_RAM

    def close(self) -> None:
        """Memory goes with the last view of it."""
