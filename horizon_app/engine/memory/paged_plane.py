"""A plane with fewer frames in RAM than it has pages; the others are on disk, and come and go by themselves.

Every opening moves the expected order on, and whatever ends (a page closed, a read, a write) makes the plane look ahead
again: pages that come next are read into frames whose own pages come later, changed ones being written first. So the
disk works beside the compute, and no thread is needed but the disk's own.

Where the reader's own memory is RAM, what is only read goes there straight, and reading ahead is the reader's: frames
then keep what was written, which passes up and down the model would push out and bring back; nothing is copied twice.

Never deadlocks: an open page is closed without waiting for another page of the same plane, and reads and writes end by
themselves. At least `FEWEST_FRAMES` frames leave one for everybody who may have a page open at once.
"""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from horizon_app.engine.errors import EngineError
from horizon_app.engine.memory.disk_queue import DiskEvent
from horizon_app.engine.memory.disk_store import DiskStore, new_buffer
from horizon_app.engine.memory.planes import DiskState, Opening, Visit, VisitOrder
from horizon_app.engine.policy.protocol import NEVER, ReplacementPolicy

FEWEST_FRAMES = 4
LOOK_AHEAD = 64
"""Visits that are looked at for something to read: 1 GiB of blocks, far more than a disk reads while a stage runs."""
READS_AHEAD = 4
"""Reads that wait at the disk at once: deeper queues brought nothing, and these can't be called back."""
NO_FRAME = -1
READING = frozenset({Opening.READ, Opening.GLANCE})
"""Openings that leave the content as it is: they need not wait while it is written to disk."""


@dataclass(slots=True)
class _Page:
    frame: int = NO_FRAME
    pins: int = 0
    dirty: bool = False  # the frame holds what the disk does not
    stored: bool = False  # the disk holds the page's content
    reading: bool = False
    writing: bool = False
    leaving: bool = False  # the frame is free as soon as it is written


class PagedPlane:
    """See the module's text. Safe to use from several threads."""

    is_paged = True

    def __init__(
        self, store: DiskStore, first_page: int, page_numels: Sequence[int], dtype: torch.dtype, *, num_frames: int,
        policy: ReplacementPolicy, owns_store: bool = False, reads_straight: bool = False,
    ) -> None:  # fmt: skip
        """`first_page` is the number of page 0 in the store; a store that is owned is closed with the plane.

        With `reads_straight`, nothing is read ahead for visits to READ: see `read_straight`.
        """
        self._owns_store, self._reads_straight = owns_store, reads_straight
        self._store, self._first, self._numels, self._dtype = store, first_page, tuple(page_numels), dtype
        frame_bytes = max(self._numels) * dtype.itemsize
        self._frames = [new_buffer(frame_bytes) for _ in range(num_frames)]
        self.memory = tuple(self._frames)
        self._free = list(range(num_frames - 1, -1, -1))
        self.num_bytes = sum(frame.numel() for frame in self._frames)
        self._pages = [_Page() for _ in self._numels]
        self._policy = policy
        self._order = VisitOrder(())
        self._changed = threading.Condition(threading.RLock())
        self._demands = 0  # openings that wait for a frame: they come before what is only read ahead
        self._reads = self._writes_leaving = 0
        self._failure: EngineError | None = None

    def expect(self, visits: Sequence[Visit], *, from_second_cycle: frozenset[Opening] = frozenset()) -> None:
        """Start on a new order, and on reading what it begins with."""
        with self._changed:
            self._order = VisitOrder(visits, from_second_cycle=from_second_cycle)
            for number, page in enumerate(self._pages):
                if page.frame != NO_FRAME:
                    self._policy.used(number, self._next_visit(number))
            self._look_ahead()

    def read_straight(self, page: int, memory: torch.Tensor) -> DiskEvent | None:
        """See Plane. What the page holds later doesn't matter: the disk keeps the order of requests on one page."""
        with self._changed:
            self._raise_failure()
            record, target = self._pages[page], memory.view(torch.uint8)
            straight = self._reads_straight and record.frame == NO_FRAME and record.stored
            if not straight or not self._store.takes(self._first + page, target):
                return None
            due = self._next_visit(page)
            self._visit(page, Opening.READ)
            event = self._store.read(self._first + page, target, due=due)
        event.on_done(lambda: self._straight_read_done(event))
        return event

    def forget(self, page: int) -> None:
        """See Plane; nobody may have the page open."""
        with self._changed:
            record = self._pages[page]
            while record.reading or record.writing:
                self._wait()
            self._drop(page)
            self._changed.notify_all()

    def on_disk(self, page: int) -> DiskState:
        """See Plane."""
        record = self._pages[page]
        if record.reading:
            return DiskState.READING
        if record.writing:
            return DiskState.WRITING
        return DiskState.ON_DISK if record.frame == NO_FRAME and record.stored else DiskState.IN_RAM

    @contextmanager
    def opened(self, page: int, opening: Opening) -> Generator[torch.Tensor]:
        """See Plane. A page opened to be filled, or never written before, holds zeros."""
        with self._changed:
            self._visit(page, opening)
            frame = self._bring(page, opening)
        try:
            yield self._frames[frame].view(self._dtype)[: self._numels[page]]
        finally:
            with self._changed:
                self._put_back(page, opening)

    def close(self) -> None:
        """Forget the frames."""
        if self._owns_store:
            self._store.close()
        with self._changed:
            self._frames = []
            self.memory = ()

    # -- inside; all with the lock held

    def _visit(self, page: int, opening: Opening) -> None:
        for number in self._order.visited(page, opening):  # their next visit is another one now
            if self._pages[number].frame != NO_FRAME:
                self._policy.used(number, self._next_visit(number))
        self._policy.horizon(self._order.position, self._order.position + LOOK_AHEAD)

    def _next_visit(self, page: int) -> int:
        at = self._order.next_visit(page)
        return NEVER if at is None else at

    def _bring(self, page: int, opening: Opening) -> int:
        self._raise_failure()  # a read that failed has left a frame with anything in it
        record = self._pages[page]
        fresh = record.frame == NO_FRAME and self._take_demanded_frame(page)
        empty = opening is Opening.FILL or (fresh and not record.stored)  # as it is now: others may change it meanwhile
        record.pins += 1  # before waiting: it may not leave meanwhile
        record.leaving = False
        if fresh and not empty:
            self._start_read(page, self._order.position)
        try:
            while record.reading or (record.writing and opening not in READING):
                self._wait()
            self._raise_failure()
        except EngineError:
            record.pins -= 1
            raise
        if empty:
            self._frames[record.frame].zero_()
        self._policy.used(page, self._next_visit(page))
        self._look_ahead()
        return record.frame

    def _take_demanded_frame(self, page: int) -> bool:
        """Give the page a frame. False where somebody else has given it one meanwhile."""
        record = self._pages[page]
        self._demands += 1
        try:
            while record.frame == NO_FRAME:
                frame = self._free.pop() if self._free else None
                if frame is None and self._writes_leaving < self._demands:
                    frame = self._evict(None)
                if frame is not None:
                    self._give(page, frame)
                    return True
                if not self._free:  # a write that has just begun may have ended already, and nobody tells twice
                    self._wait()
        finally:
            self._demands -= 1
        return False

    def _wait(self) -> None:
        self._raise_failure()
        self._changed.wait()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _give(self, page: int, frame: int) -> None:
        self._pages[page].frame = frame
        self._policy.inserted(page, self._next_visit(page))

    def _evict(self, only_after: int | None) -> int | None:
        """The frame of a page that leaves at once; None where none may, or where its content has to be written first.

        Only pages whose next visit is later than `only_after` may leave; None: any may.
        """
        victim = self._policy.victim(lambda number: self._may_leave(number, only_after))
        if victim is None:
            return None
        record = self._pages[victim]
        if record.dirty:
            self._start_write(victim)
            return None
        self._policy.removed(victim)
        frame, record.frame = record.frame, NO_FRAME
        return frame

    def _may_leave(self, number: int, only_after: int | None) -> bool:
        record = self._pages[number]
        if record.pins or record.reading or record.writing:
            return False
        return only_after is None or self._next_visit(number) > only_after

    def _put_back(self, page: int, opening: Opening) -> None:
        record = self._pages[page]
        record.pins -= 1
        if opening in (Opening.CHANGE, Opening.FILL):
            record.dirty, record.stored = True, False
        elif opening is Opening.CONSUME:
            self._drop(page)
        self._look_ahead()
        self._changed.notify_all()

    def _drop(self, page: int) -> None:
        record = self._pages[page]
        record.dirty = record.stored = False
        if record.frame != NO_FRAME and record.pins == 0:
            self._policy.removed(page)
            self._free.append(record.frame)
            record.frame = NO_FRAME

    def _look_ahead(self) -> None:
        """Begin to read what comes next, as far as frames can be had from pages that come later."""
        if self._failure is not None or not self._order.visits:
            return
        coming = self._writes_leaving - self._demands  # frames on their way to be free, for one page each
        for position, visit in self._order.coming(LOOK_AHEAD):
            if self._reads >= READS_AHEAD:
                return
            record = self._pages[visit.page]
            straight = self._reads_straight and visit.opening is Opening.READ
            if not visit.reads or straight or record.frame != NO_FRAME or not record.stored:
                continue
            frame: int | None = None
            if len(self._free) > self._demands:
                frame = self._free.pop()
            elif coming > 0:
                coming -= 1
                continue
            else:
                writes = self._writes_leaving
                frame = self._evict(position)
                if frame is None:
                    if self._writes_leaving == writes or self._writes_leaving >= READS_AHEAD:
                        return
                    continue
            self._give(visit.page, frame)
            self._start_read(visit.page, position)

    def _start_read(self, page: int, due: int) -> None:
        record = self._pages[page]
        record.reading = True
        self._reads += 1
        event = self._store.read(self._first + page, self._frames[record.frame], due=due)
        event.on_done(lambda: self._read_done(page, event))

    def _start_write(self, page: int) -> None:
        record = self._pages[page]
        record.writing = record.leaving = True
        self._writes_leaving += 1
        event = self._store.write(self._first + page, self._frames[record.frame], due=self._order.position)
        event.on_done(lambda: self._write_done(page, event))

    def _read_done(self, page: int, event: DiskEvent) -> None:
        with self._changed:
            self._pages[page].reading = False
            self._reads -= 1
            self._note_failure(event)
            self._look_ahead()
            self._changed.notify_all()

    def _straight_read_done(self, event: DiskEvent) -> None:
        with self._changed:
            self._note_failure(event)
            self._changed.notify_all()

    def _write_done(self, page: int, event: DiskEvent) -> None:
        with self._changed:
            record = self._pages[page]
            record.writing = False
            self._writes_leaving -= 1
            if self._note_failure(event):
                record.dirty, record.stored = False, True
                if record.leaving and record.pins == 0:
                    self._policy.removed(page)
                    self._free.append(record.frame)
                    record.frame = NO_FRAME
            record.leaving = False
            self._look_ahead()
            self._changed.notify_all()

    def _note_failure(self, event: DiskEvent) -> bool:
        try:
            event.wait()
        except EngineError as failure:
            self._failure = self._failure or failure
            return False
        return True
