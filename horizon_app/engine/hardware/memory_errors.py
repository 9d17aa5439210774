"""Telling a lack of memory from other failures, on every device. Needs no torch: workers ask before it is there."""

_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: torch says so by type on a GPU, and in words on the CPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _WORDS)
