"""`python -m horizon_app.engine.hardware.pin_probe BYTES`: how much memory CUDA pins, up to BYTES."""

import json
import sys

import torch

_FIRST_BYTES = 64 << 20


def pinned_bytes(most: int) -> int:
    """The largest buffer that was pinned whole: sizes are doubled until one is refused."""
    size, pinned = min(_FIRST_BYTES, most), 0
    while size > pinned:
        try:
            torch.empty(size, dtype=torch.uint8, pin_memory=True)
        except RuntimeError:
            break
        pinned, size = size, min(size * 2, most)
    return pinned


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"pinned_bytes": pinned_bytes(int(sys.argv[1]))}) + "\n")
