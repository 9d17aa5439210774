"""Memory held by a process that does nothing else, so that a benchmark runs beside a known rest of RAM.

python -m tests.bench.ballast BYTES
"""

import contextlib
import mmap
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psutil

GIB = 1 << 30
_BUSY_PERCENT = 25.0
_LOOK_S = 3.0
_LEAST_FREE_SHARE = 0.8
_CHUNK = 64 << 20


class NotQuiet(RuntimeError):
    """Something else runs here: taking the memory away would hurt it, and spoil the figures."""


def check_quiet() -> None:
    """Raises NotQuiet where the machine is busy or its memory is in use."""
    # Not the load average: for minutes it remembers the roofs that the benchmark itself has just measured.
    busy, memory = psutil.cpu_percent(interval=_LOOK_S), psutil.virtual_memory()
    if busy > _BUSY_PERCENT:
        raise NotQuiet(
            f"the processors are {busy:.0f}% busy; a ballast is for a quiet machine (at most {_BUSY_PERCENT:g}%)"
        )
    if memory.available < _LEAST_FREE_SHARE * memory.total:
        free, total = memory.available / GIB, memory.total / GIB
        raise NotQuiet(f"only {free:.1f} of {total:.1f} GiB are free; end what holds the rest first")


@contextlib.contextmanager
def ballast(leave_bytes: int) -> Generator[None]:
    """Hold all available memory but `leave_bytes` while the block runs. Raises NotQuiet and RuntimeError."""
    check_quiet()
    take = psutil.virtual_memory().available - leave_bytes
    command = [sys.executable, "-m", "tests.bench.ballast", str(take)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "held":
            raise RuntimeError(f"the ballast could not hold {take / GIB:.1f} GiB")
        yield
    finally:
        process.kill()
        process.wait()


def hold(num_bytes: int) -> None:
    """Touch that much memory, say so, and hold it until standard input ends. The first to go where memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    held = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held.madvise(mmap.MADV_HUGEPAGE)
    page = b"\x01" * _CHUNK
    for start in range(0, num_bytes - _CHUNK + 1, _CHUNK):
        held[start : start + _CHUNK] = page
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    hold(int(sys.argv[1]))
