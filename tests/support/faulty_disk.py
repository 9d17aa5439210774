"""A disk that fails, lies, fills up, dawdles and cuts transfers short, below a DiskStore: `system=FaultyDisk(...)`.

Faults are told by page. They may be added to `faults` while the store runs, and every other attribute may be changed.
"""

import errno as errno_words
import mmap
import os
import random
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from horizon_app.engine.memory.disk_io import SECTOR, OsDisk, round_up
from horizon_app.engine.memory.disk_page import page_of


class FaultKind(StrEnum):
    READ_ERROR = "read_error"  # the read fails with `errno`
    WRITE_ERROR = "write_error"  # the write fails with `errno`, nothing written
    LOST_WRITE = "lost_write"  # the write says that it went well, but nothing is written
    FLIPPED_BIT = "flipped_bit"  # bit `bit` of the page (its header first) is flipped on disk after the write
    SHORT_READ = "short_read"  # the call moves `num_bytes` at most
    SHORT_WRITE = "short_write"


_AT_READS = {FaultKind.READ_ERROR, FaultKind.SHORT_READ}


@dataclass(slots=True)
class Fault:
    """Happens to calls of one kind for `page` (None: any): skips the first `after`, then `times` (None: for ever)."""

    kind: FaultKind
    page: int | None = None
    after: int = 0
    times: int | None = None
    errno: int = errno_words.EIO
    bit: int = SECTOR * 8
    num_bytes: int = SECTOR
    happened: int = 0

    def strikes(self, *, reading: bool, page: int) -> bool:
        """Whether it happens to this call; counts."""
        if (self.kind in _AT_READS) != reading or self.page not in (None, page):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None and self.happened >= self.times:
            return False
        self.happened += 1
        return True


class FaultyDisk(OsDisk):
    """The real disk, with faults in between.

    `direct=False` refuses O_DIRECT, `preallocates=False` refuses to reserve room. `free` is what the volume says to
    have free; after `full_after` bytes of pages (None: never) writes meet ENOSPC. Every transfer takes `delay_s`
    longer, and up to `jitter_s` more, at random by `seed`, so that transfers of several threads end in any order.
    """

    def __init__(
        self, *faults: Fault, direct: bool = True, preallocates: bool = True, free: int | None = None,
        full_after: int | None = None, delay_s: float = 0.0, jitter_s: float = 0.0, seed: int = 0,
    ) -> None:  # fmt: skip
        self.faults = list(faults)
        self.direct, self.preallocates, self.free, self.full_after = direct, preallocates, free, full_after
        self.delay_s, self.jitter_s = delay_s, jitter_s
        self.fd = -1
        self.closed = False
        self.calls: list[tuple[str, int]] = []  # ("read" or "write", page), in the order they reached the disk
        self.num_syncs = 0
        self.dropped_bytes = 0
        self.bytes_moved = 0  # by pages, header and all
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._gate = threading.Event()
        self._gate.set()
        self._starts: list[int] = []  # offsets of pages that were written, rising
        self._page_at: dict[int, int] = {}

    def hold(self) -> None:
        """From now on transfers reach the disk, and stay there until `release`."""
        self._gate.clear()

    def release(self) -> None:
        """Let all transfers go on."""
        self._gate.set()

    def flip_bit(self, page: int, bit: int = SECTOR * 8) -> None:
        """Flip a bit of a page that was written, on the disk itself; the default is the first bit of the data."""
        start = next(offset for offset, at in self._page_at.items() if at == page)
        sector_start = start + bit // 8 // SECTOR * SECTOR
        sector = memoryview(mmap.mmap(-1, SECTOR))
        super().preadv(self.fd, [sector], sector_start)
        sector[bit // 8 % SECTOR] ^= 1 << bit % 8
        super().pwritev(self.fd, [sector], sector_start)

    # -- what the store calls

    def open(self, path: Path, flags: int, mode: int) -> int:
        self.fd = super().open(path, flags, mode)
        return self.fd

    def close(self, fd: int) -> None:
        super().close(fd)
        self.closed = True

    def free_bytes(self, fd: int) -> int:
        return super().free_bytes(fd) if self.free is None else self.free

    def preallocate(self, fd: int, num_bytes: int) -> None:
        if not self.preallocates:
            raise _os_error(errno_words.EOPNOTSUPP)
        super().preallocate(fd, num_bytes)

    def set_direct(self, fd: int, direct: bool) -> None:
        if direct and not self.direct:
            raise _os_error(errno_words.EINVAL)
        super().set_direct(fd, direct)

    def sync(self, fd: int) -> None:
        self.num_syncs += 1
        super().sync(fd)

    def drop_cache(self, fd: int, offset: int, num_bytes: int) -> None:
        self.dropped_bytes += num_bytes
        super().drop_cache(fd, offset, num_bytes)

    def preadv(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        page = self._arrive("read", buffers, offset)
        if page is None:
            return super().preadv(fd, buffers, offset)
        striking = self._striking(page, reading=True)
        if FaultKind.READ_ERROR in striking:
            raise _os_error(striking[FaultKind.READ_ERROR].errno)
        if (short := striking.get(FaultKind.SHORT_READ)) is not None:
            # O_DIRECT moves whole sectors only: what is more than told is as good as not moved.
            moved = super().preadv(fd, _first(buffers, round_up(short.num_bytes)), offset)
            return self._count(min(moved, short.num_bytes))
        return self._count(super().preadv(fd, buffers, offset))

    def pwritev(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        page = self._arrive("write", buffers, offset)
        if page is None:
            return super().pwritev(fd, buffers, offset)
        striking = self._striking(page, reading=False)
        if FaultKind.WRITE_ERROR in striking:
            raise _os_error(striking[FaultKind.WRITE_ERROR].errno)
        if FaultKind.LOST_WRITE in striking:
            return self._count(sum(len(buffer) for buffer in buffers))
        short = striking.get(FaultKind.SHORT_WRITE)
        buffers = self._what_fits(buffers if short is None else _first(buffers, round_up(short.num_bytes)))
        moved = super().pwritev(fd, buffers, offset)
        if short is not None:
            moved = min(moved, short.num_bytes)
        if FaultKind.FLIPPED_BIT in striking:
            self.flip_bit(page, striking[FaultKind.FLIPPED_BIT].bit)
        return self._count(moved)

    # -- inside

    def _arrive(self, operation: str, buffers: Sequence[memoryview], offset: int) -> int | None:
        """The page that is moved; None for the trial at the start. Takes as long as it is told to."""
        with self._lock:
            page = page_of(buffers[0]) if operation == "write" and len(buffers[0]) >= SECTOR else None
            if page is not None and offset not in self._page_at:
                self._page_at[offset] = page
                self._starts = sorted(self._page_at)
            behind = bisect_right(self._starts, offset)
            if behind == 0:
                return None
            page = self._page_at[self._starts[behind - 1]]
            self.calls.append((operation, page))
            delay = self.delay_s + self._random.random() * self.jitter_s
        self._gate.wait()
        if delay:
            time.sleep(delay)
        return page

    def _striking(self, page: int, *, reading: bool) -> dict[FaultKind, Fault]:
        with self._lock:
            return {fault.kind: fault for fault in self.faults if fault.strikes(reading=reading, page=page)}

    def _what_fits(self, buffers: Sequence[memoryview]) -> Sequence[memoryview]:
        with self._lock:
            if self.full_after is None:
                return buffers
            num_bytes = min(sum(len(buffer) for buffer in buffers), self.full_after // SECTOR * SECTOR)
            if num_bytes == 0:
                raise _os_error(errno_words.ENOSPC)
            self.full_after -= num_bytes
        return _first(buffers, num_bytes)

    def _count(self, moved: int) -> int:
        with self._lock:
            self.bytes_moved += moved
        return moved


def _first(buffers: Sequence[memoryview], num_bytes: int) -> list[memoryview]:
    taken: list[memoryview] = []
    for buffer in buffers:
        taken.append(buffer[:num_bytes])
        num_bytes -= len(taken[-1])
    return [buffer for buffer in taken if len(buffer)]


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
