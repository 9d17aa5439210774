"""The machine's limits, each measured in a process of its own: products, memory, disk, optimizer.

python -m tests.bench.roofs memory | disk FOLDER
"""

import json
import mmap
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROUNDS = 7
_COPY_BYTES = 512 << 20
_PARAMETERS = 50_000_000
_DISK_BLOCK, _DISK_BLOCKS = 16 << 20, 64


def compute_and_memory() -> dict[str, float]:
    """Products in bf16 and fp32 (TFLOP/s), a copy (GB/s of payload), fused AdamW (million parameters a second)."""
    import torch

    def products(dtype: torch.dtype) -> float:
        rows, inner, columns = 2048, 2048, 5632
        x, w = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
        return 2 * rows * inner * columns / _median_seconds(lambda: torch.nn.functional.linear(x, w)) / 1e12

    source, target = torch.ones(_COPY_BYTES, dtype=torch.uint8), torch.zeros(_COPY_BYTES, dtype=torch.uint8)
    planes = [torch.zeros(_PARAMETERS) for _ in range(4)]
    parameter = torch.nn.Parameter(planes[0])
    parameter.grad = planes[1]
    adam = torch.optim.AdamW([parameter], fused=True)
    return {
        "bf16 products, TFLOP/s": products(torch.bfloat16),
        "fp32 products, TFLOP/s": products(torch.float32),
        "memory copy, GB/s": _COPY_BYTES / _median_seconds(lambda: target.copy_(source)) / 1e9,
        "fused AdamW, M parameters/s": _PARAMETERS / _median_seconds(adam.step) / 1e6,
    }


def disk(folder: Path) -> dict[str, float]:
    """Writing, reading, and both at once past the page cache, MB/s; both at once counts the sum of both ways."""
    path = folder / "horizon-bench-disk"
    total = _DISK_BLOCK * _DISK_BLOCKS
    try:
        direct = os.O_DIRECT
        fd = os.open(path, os.O_RDWR | os.O_CREAT | direct, 0o600)
    except (AttributeError, OSError):
        direct = 0
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(fd, 0, total)
        buffers = [mmap.mmap(-1, _DISK_BLOCK) for _ in range(2)]
        for buffer in buffers:
            buffer.write(os.urandom(1 << 20) * (_DISK_BLOCK >> 20))
        _write(fd, buffers[0], range(_DISK_BLOCKS))  # once before: blocks that were never written are quick to read
        write = _seconds(lambda: _write(fd, buffers[0], range(_DISK_BLOCKS)))
        read = _seconds(lambda: _read(fd, buffers[1], range(_DISK_BLOCKS)))
        half = _DISK_BLOCKS // 2
        both = _seconds(
            lambda: _together(
                lambda: _write(fd, buffers[0], range(half)), lambda: _read(fd, buffers[1], range(half, _DISK_BLOCKS))
            )
        )
    finally:
        os.close(fd)
        path.unlink()
    return {
        "disk write, MB/s": total / write / 1e6,
        "disk read, MB/s": total / read / 1e6,
        "disk read and write at once, MB/s": total / both / 1e6,
        "past the page cache": float(bool(direct)),
    }


def _write(fd: int, buffer: mmap.mmap, blocks: range) -> None:
    for block in blocks:
        os.pwritev(fd, [buffer], block * _DISK_BLOCK)


def _read(fd: int, buffer: mmap.mmap, blocks: range) -> None:
    for block in blocks:
        os.preadv(fd, [buffer], block * _DISK_BLOCK)


def _together(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _median_seconds(work: Callable[[], object]) -> float:
    work()
    return statistics.median(_seconds(work) for _ in range(_ROUNDS))


def main(arguments: list[str]) -> None:
    """Print the figures as JSON."""
    figures: dict[str, Any] = disk(Path(arguments[1])) if arguments[0] == "disk" else compute_and_memory()
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
