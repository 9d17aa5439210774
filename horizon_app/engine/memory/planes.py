"""What the host tier holds of each block: planes, whole in RAM or paged to disk, behind one way of opening them.

A plane's content of one block is a page. Whoever needs a page opens it, uses its tensor, and closes it; a page that is
open stays where it is. The order in which a plane's pages will be asked for is told in advance, so that pages on disk
are read before they are needed.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import torch

from horizon_app.engine.memory.disk_queue import DiskEvent


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

    def read_straight(self, page: int, memory: torch.Tensor) -> DiskEvent | None:
        """Begin to read a page that only the disk has into other memory; None: open it, as any other.

        `memory` is as large as the page at least; what lies behind the page in it is lost. Raises EngineError.
        """
        ...

    def expect(self, visits: "Sequence[Visit]", *, from_second_cycle: "frozenset[Opening]" = frozenset()) -> None:
        """The order in which pages will be opened, over and over again; some openings may begin a cycle later."""
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
    opening: Opening = Opening.READ
    reads: bool = True


class _Way:
    """The visits of one kind of opening, and how many of them were made. They are numbered for ever, cycle by cycle."""

    def __init__(self, places: Sequence[int], pages: Sequence[int], cycle_length: int) -> None:
        self._places, self._pages, self._cycle_length = places, pages, cycle_length
        self.next = 0
        self._of_page: dict[int, list[int]] = {}
        for number, page in enumerate(pages):
            self._of_page.setdefault(page, []).append(number)

    def position(self, number: int) -> int:
        """Where a visit stands in the order of all openings."""
        cycle, in_cycle = divmod(number, len(self._pages))
        return cycle * self._cycle_length + self._places[in_cycle]

    def next_visit(self, page: int) -> int | None:
        """Number of the page's next visit, or None."""
        numbers = self._of_page.get(page)
        if not numbers:
            return None
        cycle, in_cycle = divmod(self.next, len(self._pages))
        i = bisect_left(numbers, in_cycle)
        if i < len(numbers):
            return cycle * len(self._pages) + numbers[i]
        return (cycle + 1) * len(self._pages) + numbers[0]

    def is_last_visit_still(self, page: int) -> bool:
        """A visit may open its page several times; only where the page comes twice in a row is that another visit."""
        count = len(self._pages)
        return self.next > 0 and self._pages[(self.next - 1) % count] == page != self._pages[self.next % count]

    def go_to(self, number: int) -> list[int]:
        """Go on to a visit. Answers the pages that are passed over."""
        passed = [self._pages[n % len(self._pages)] for n in range(self.next, number)]
        self.next = max(self.next, number)
        return passed

    def go_to_cycle(self, cycle: int) -> list[int]:
        """Go on to the begin of a cycle. Answers the pages that are passed over."""
        return self.go_to(cycle * len(self._pages))

    def is_past(self, position: int) -> bool:
        """Whether the visit that stands there was made, or left out."""
        return position < self.position(self.next)


class VisitOrder:
    """Where a cyclic order of visits stands, and when each page comes next. Positions rise for ever.

    Each kind of opening goes its own way: the thread that updates weights is ahead of the one that fetches them. But a
    cycle is one optimizer step: once any way has entered it, what the others have left of the cycle before will not
    come any more.
    """

    def __init__(self, visits: Sequence[Visit], *, from_second_cycle: frozenset[Opening] = frozenset()) -> None:
        """Openings named in `from_second_cycle` don't come in the first one."""
        self.visits = tuple(visits)
        self._ways: dict[Opening, _Way] = {}
        for opening in dict.fromkeys(visit.opening for visit in self.visits):
            places = [place for place, visit in enumerate(self.visits) if visit.opening is opening]
            way = _Way(places, [self.visits[place].page for place in places], len(self.visits))
            way.go_to_cycle(int(opening in from_second_cycle))
            self._ways[opening] = way

    @property
    def position(self) -> int:
        """Of the first visit that is still to come."""
        return min((way.position(way.next) for way in self._ways.values()), default=0)

    def visited(self, page: int, opening: Opening) -> list[int]:
        """Go on behind the next visit of `page`; openings that nobody announced change nothing.

        Answers the pages that were passed over: visits may be left out, as when a block is still on the device.
        """
        way = self._ways.get(opening)
        number = None if way is None else way.next_visit(page)
        if way is None or number is None or way.is_last_visit_still(page):
            return []
        passed = way.go_to(number)
        way.next = number + 1
        cycle = way.position(number) // len(self.visits)
        for other in self._ways.values():
            passed += other.go_to_cycle(cycle)
        return passed

    def next_visit(self, page: int) -> int | None:
        """Position of the next visit of `page`, or None."""
        numbers = ((way, way.next_visit(page)) for way in self._ways.values())
        return min((way.position(number) for way, number in numbers if number is not None), default=None)

    def at(self, position: int) -> Visit:
        """The visit at a position."""
        return self.visits[position % len(self.visits)]

    def coming(self, most: int) -> Iterator[tuple[int, Visit]]:
        """The visits that are still to come among the next `most` positions, at most a cycle of them."""
        first = self.position
        for position in range(first, first + min(most, len(self.visits))):
            visit = self.at(position)
            if not self._ways[visit.opening].is_past(position):
                yield position, visit
