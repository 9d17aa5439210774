"""Files that a crash or a full disk never leaves half-written. Knows nothing of what is in them."""

import os
from pathlib import Path

_TAIL_BYTES = 1 << 16


class AppendFile:
    """A file that grows by whole records only: a write that fails halfway leaves nothing of itself behind."""

    def __init__(self, path: Path) -> None:
        """Open `path`, creating the file but never its folder. Raises OSError."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    @property
    def num_bytes(self) -> int:
        """Length of the file now."""
        return os.fstat(self._fd).st_size

    def append(self, record: bytes) -> None:
        """Write all of `record` at the end. Raises OSError, and then the file is as long as before."""
        start = self.num_bytes
        left = memoryview(record)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            os.ftruncate(self._fd, start)
            raise

    def drop_torn_line(self) -> int:
        """Cut what follows the last line end, left by a process that was killed while writing; gives the bytes cut."""
        end = self.num_bytes
        start = end
        keep = 0
        while start > 0 and keep == 0:
            start = max(0, start - _TAIL_BYTES)
            chunk = os.pread(self._fd, _TAIL_BYTES, start)
            keep = start + chunk.rfind(b"\n") + 1 if b"\n" in chunk else 0
        if keep != end:
            os.ftruncate(self._fd, keep)
        return end - keep

    def read_at(self, start: int, num_bytes: int) -> bytes:
        """Up to `num_bytes` from byte `start` on."""
        return os.pread(self._fd, num_bytes, start)

    def cut(self, num_bytes: int) -> None:
        """Keep the first `num_bytes`."""
        os.ftruncate(self._fd, num_bytes)

    def close(self) -> None:
        """Bring everything to the disk and close."""
        try:
            os.fsync(self._fd)
        finally:
            os.close(self._fd)


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one go: a reader sees the old file or the new one. Raises OSError."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)
