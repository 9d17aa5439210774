"""What the disk tier asks of the operating system, and transfers that go on until all is moved."""

import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

SECTOR = 4096
"""What offsets, lengths and addresses are multiples of: O_DIRECT asks for it on every disk with sectors up to 4 KiB."""


class DiskSystem(Protocol):
    """The calls that the disk tier makes, each as `os` has it; raises OSError. Tests put faults in between."""

    def open(self, path: Path, flags: int, mode: int) -> int:
        """A file descriptor."""
        ...

    def unlink(self, path: Path) -> None:
        """Take the file's name away."""
        ...

    def close(self, fd: int) -> None:
        """End the use of a descriptor."""
        ...

    def free_bytes(self, fd: int) -> int:
        """Bytes that may still be written to the volume of the file."""
        ...

    def preallocate(self, fd: int, num_bytes: int) -> None:
        """Reserve room for the whole file."""
        ...

    def truncate(self, fd: int, num_bytes: int) -> None:
        """Set the file's length."""
        ...

    def set_direct(self, fd: int, direct: bool) -> None:
        """Go past the page cache, or through it."""
        ...

    def preadv(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        """Read, perhaps less than asked for; answers the number of bytes."""
        ...

    def pwritev(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        """Write, perhaps less than asked for; answers the number of bytes."""
        ...

    def sync(self, fd: int) -> None:
        """Wait until all that was written is on the disk."""
        ...

    def drop_cache(self, fd: int, offset: int, num_bytes: int) -> None:
        """Tell the page cache that these bytes are not needed."""
        ...


class OsDisk:
    """The operating system itself."""

    def open(self, path: Path, flags: int, mode: int) -> int:
        """See DiskSystem."""
        return os.open(path, flags, mode)

    def unlink(self, path: Path) -> None:
        """See DiskSystem."""
        path.unlink()

    def close(self, fd: int) -> None:
        """See DiskSystem."""
        os.close(fd)

    def free_bytes(self, fd: int) -> int:
        """See DiskSystem."""
        volume = os.fstatvfs(fd)
        return volume.f_bavail * volume.f_frsize

    def preallocate(self, fd: int, num_bytes: int) -> None:
        """See DiskSystem."""
        os.posix_fallocate(fd, 0, num_bytes)

    def truncate(self, fd: int, num_bytes: int) -> None:
        """See DiskSystem."""
        os.ftruncate(fd, num_bytes)

    def set_direct(self, fd: int, direct: bool) -> None:
        """See DiskSystem."""
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)

    def preadv(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        """See DiskSystem."""
        return os.preadv(fd, buffers, offset)

    def pwritev(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        """See DiskSystem."""
        return os.pwritev(fd, buffers, offset)

    def sync(self, fd: int) -> None:
        """See DiskSystem."""
        os.fdatasync(fd)

    def drop_cache(self, fd: int, offset: int, num_bytes: int) -> None:
        """See DiskSystem."""
        os.posix_fadvise(fd, offset, num_bytes, os.POSIX_FADV_DONTNEED)


OS_DISK = OsDisk()


class StaysShort(Exception):
    """A transfer that no repetition brings further."""

    def __init__(self, *, moved: int, total: int) -> None:
        super().__init__(f"{moved:,} of {total:,} bytes were moved, and no more")


def round_up(num_bytes: int) -> int:
    """The next multiple of SECTOR."""
    return -(-num_bytes // SECTOR) * SECTOR


def move_all(
    call: Callable[[int, Sequence[memoryview], int], int], fd: int, buffers: Sequence[memoryview], offset: int
) -> None:
    """Call preadv or pwritev until all buffers are moved. Raises OSError, and StaysShort after two calls in vain.

    Goes on from the last whole sector, as O_DIRECT takes no other offset: moving some bytes again does no harm.
    """
    total = sum(len(buffer) for buffer in buffers)
    done = in_vain = 0
    while done < total:
        end = done + call(fd, _rest(buffers, done), offset + done)
        gained = end - end % SECTOR - done
        in_vain = 0 if gained else in_vain + 1
        if in_vain == 2:
            raise StaysShort(moved=end, total=total)
        done += gained


def _rest(buffers: Sequence[memoryview], skip: int) -> list[memoryview]:
    rest: list[memoryview] = []
    for buffer in buffers:
        if skip < len(buffer):
            rest.append(buffer[skip:])
        skip = max(0, skip - len(buffer))
    return rest
