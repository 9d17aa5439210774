"""What a worker prints, in a file of bounded size: whoever reads it, or nobody, nothing waits for it."""

import os
import sys
from pathlib import Path

MOST_BYTES = 16 << 20
"""Of the file; the one before it is kept beside it, under the same name with .1 behind it."""


class LogFile:
    """Both output streams of this process, sent to a file."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        """From here on all output goes there. Raises OSError."""
        self._path, self._most_bytes = path, most_bytes
        self._send_output_there()

    def rotate_if_large(self) -> None:
        """Begin a new file where this one has grown too large; a disk that is full leaves it as it is."""
        try:
            if os.fstat(sys.stdout.fileno()).st_size < self._most_bytes:
                return
            self._path.rename(self._path.with_name(f"{self._path.name}.1"))
            self._send_output_there()
        except OSError:
            return

    def _send_output_there(self) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(fd, sys.stdout.fileno())
        os.dup2(fd, sys.stderr.fileno())
        os.close(fd)
