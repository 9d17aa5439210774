"""What the host tier holds of each block: planes, whole in RAM or paged to disk, behind one way of opening them.

A plane's content of one block is a page. Whoever needs a page opens it, uses its tensor, and closes it; a page that is
open stays where it is. The order in which a plane's pages will be asked for is told in advance, so that pages on disk
are read before they are needed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import torch


class PlaneName(StrEnum):
    """One kind of data of a block."""

    WEIGHT = "weight"  # in the compute dtype
    MASTER = "master"  # fp32
    EXP_AVG = "exp_avg"
    EXP_AVG_SQ = "exp_avg_sq"
    GRAD = "grad"  # fp32
    GRAD_AVERAGE = "grad_average"  # fp32, where gradients are averaged over steps


class Opening(StrEnum):
    """What an opened page is for."""

    READ = "read"
    GLANCE = "glance"  # read beside the announced order, which goes on as if nothing was opened
    CHANGE = "change"  # parts of it are written: what is there stays
    FILL = "fill"  # all of it is written, or starts from zero: what was there is not needed
    CONSUME = "consume"  # read (and perhaps overwritten) for the last time: what is left in it is not needed again


class Plane(Protocol):
    """One kind of data of all blocks."""

    num_bytes: int  # of host memory
    memory: tuple[torch.Tensor, ...]  # all of it, for whoever locks its pages

    def opened(self, page: int, opening: Opening) -> AbstractContextManager[torch.Tensor]:
        """The page's memory, flat, for the length of the context. Waits for the disk; raises EngineError."""
        ...

    def expect(self, visits: "Sequence[Visit]", openings: "frozenset[Opening]") -> None:
        """The order in which pages will be opened, over and over again; other `openings` are not part of it."""
        ...

    def forget(self, page: int) -> None:
        """What the page holds is not needed: it starts from nothing when it is opened next."""
        ...

    def on_disk(self, page: int) -> "DiskState":
        """Where the page is, as a residency frame tells it; never waits."""
        ...

    @property
    def is_paged(self) -> bool:
        """Whether pages may be on disk."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


class DiskState(StrEnum):
    """What the disk has to do with a page now."""

    IN_RAM = "in_ram"
    READING = "reading"
    WRITING = "writing"
    ON_DISK = "on_disk"


@dataclass(frozen=True, slots=True)
class Visit:
    """One opening that is to come; pages opened to be filled need not be read before."""

    page: int
    reads: bool = True


class VisitOrder:
    """Where a cyclic order of visits stands, and when each page comes next. Positions rise for ever."""

    def __init__(self, visits: Sequence[Visit], openings: frozenset[Opening]) -> None:
        self.visits, self._openings = tuple(visits), openings
        self.position = 0  # of the next visit
        self._last: tuple[int, Opening] | None = None
        self._places: dict[int, list[int]] = {}
        for place, visit in enumerate(self.visits):
            self._places.setdefault(visit.page, []).append(place)

    def visited(self, page: int, opening: Opening) -> None:
        """Go on behind the next visit of `page`; openings that nobody announced change nothing."""
        at = self.next_visit(page) if opening in self._openings else None
        if at is None or self._is_last_visit_still(page, opening, at):
            return
        # Visits may be left out: a block still on the device is not fetched again.
        self.position, self._last = at + 1, (page, opening)

    def _is_last_visit_still(self, page: int, opening: Opening, at: int) -> bool:
        """A visit may open its page several times; `at` is where the page comes next."""
        if self._last is None or page != self._last[0]:
            return False
        # Filled last and read first, a page has two visits in a row; parts of it are filled one by one.
        kinds_differ = self.at(at).reads != self.at(at - 1).reads
        return at != self.position or (opening is self._last[1] and kinds_differ)

    def next_visit(self, page: int) -> int | None:
        """Position of the next visit of `page`, or None."""
        places = self._places.get(page)
        if not places:
            return None
        cycle, place = divmod(self.position, len(self.visits))
        i = bisect_left(places, place)
        if i < len(places):
            return cycle * len(self.visits) + places[i]
        return (cycle + 1) * len(self.visits) + places[0]

    def at(self, position: int) -> Visit:
        """The visit at a position."""
        return self.visits[position % len(self.visits)]
