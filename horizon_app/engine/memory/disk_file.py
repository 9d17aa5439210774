"""The one file of the disk tier: preallocated, nameless, past the page cache where that works."""

import errno
import mmap
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from horizon_app.engine.errors import DiskFailed, DiskFull, DiskUnusable, EngineError
from horizon_app.engine.memory.disk_io import SECTOR, DiskSystem, StaysShort, move_all

_FULL = {errno.ENOSPC, errno.EDQUOT}
_UNUSABLE = {
    errno.EACCES, errno.EFBIG, errno.ENODEV, errno.ENOENT, errno.ENXIO, errno.EPERM, errno.EROFS, errno.ESTALE,
}  # fmt: skip
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


class DiskFile:
    """`num_bytes` of disk in a folder. Reads and writes may run on several threads."""

    def __init__(self, folder: Path, num_bytes: int, system: DiskSystem) -> None:
        """Raises DiskUnusable, DiskFull and DiskFailed."""
        self._folder, self._system = folder, system
        self._fd = self._open()
        try:
            self._reserve(num_bytes)
            self.is_direct = self._goes_direct()
        except OSError as error:
            failure = self._typed(error, "reserve", None, num_bytes)
            self._system.close(self._fd)
            raise failure from error
        except EngineError:
            self._system.close(self._fd)
            raise

    def read(self, buffers: Sequence[memoryview], offset: int, *, page: int) -> None:
        """Fill the buffers. `page` is named in errors. Raises DiskFailed and DiskUnusable."""
        self._move("read", page, self._system.preadv, buffers, offset)

    def write(self, buffers: Sequence[memoryview], offset: int, *, page: int) -> None:
        """Write the buffers. Raises DiskFull, DiskFailed and DiskUnusable."""
        self._move("write", page, self._system.pwritev, buffers, offset)

    def close(self) -> None:
        """Give the room on disk back."""
        self._system.close(self._fd)

    def _open(self) -> int:
        path = self._folder / f"horizon-tier-{secrets.token_hex(8)}.bin"
        fd: int | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd = self._system.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            # A file without a name is gone with the last process that has it open: a run that is killed, whatever the
            # way, leaves nothing behind. Done before the room is reserved, so that at worst an empty file is left.
            self._system.unlink(path)
        except OSError as error:
            if fd is not None:
                self._system.close(fd)
            raise DiskUnusable(folder=self._folder, reason=_text(error)) from error
        return fd

    def _reserve(self, num_bytes: int) -> None:
        free = self._system.free_bytes(self._fd)
        if free < num_bytes:
            raise DiskFull(needed_bytes=num_bytes, free_bytes=free, folder=self._folder)
        try:
            self._system.preallocate(self._fd, num_bytes)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._system.truncate(self._fd, num_bytes)  # room is then taken page by page, and may run out

    def _goes_direct(self) -> bool:
        """Whether O_DIRECT works, found by trying: some file systems take the flag and refuse the transfer."""
        sector = memoryview(mmap.mmap(-1, SECTOR))
        try:
            self._system.set_direct(self._fd, True)
            for call in (self._system.pwritev, self._system.preadv):
                if call(self._fd, [sector], 0) != SECTOR:
                    break
            else:
                return True
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        self._system.set_direct(self._fd, False)
        return False

    def _move(
        self, operation: str, page: int, call: Callable[[int, Sequence[memoryview], int], int],
        buffers: Sequence[memoryview], offset: int,
    ) -> None:  # fmt: skip
        num_bytes = sum(len(buffer) for buffer in buffers)
        try:
            move_all(call, self._fd, buffers, offset)
            if not self.is_direct:
                # The page cache would take the RAM that this tier is there to save, and only clean pages leave it.
                # (It tells a failed write-back once, to whoever syncs next; others notice it by the generation.)
                self._system.sync(self._fd)
                self._system.drop_cache(self._fd, offset, num_bytes)
        except StaysShort as error:
            raise DiskFailed(operation=operation, page=page, reason=str(error)) from error
        except OSError as error:
            raise self._typed(error, operation, page, num_bytes) from error

    def _typed(self, error: OSError, operation: str, page: int | None, needed: int) -> EngineError:
        if error.errno in _FULL:
            return DiskFull(needed_bytes=needed, free_bytes=self._free_bytes(), folder=self._folder)
        if error.errno in _UNUSABLE:
            return DiskUnusable(folder=self._folder, reason=_text(error))
        return DiskFailed(operation=operation, page=page, reason=_text(error))

    def _free_bytes(self) -> int:
        try:
            return self._system.free_bytes(self._fd)
        except OSError:  # the volume is going: what is free is not the question any more
            return 0


def _text(error: OSError) -> str:
    return f"{error.strerror} (errno {error.errno})"
