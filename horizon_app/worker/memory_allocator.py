"""How the C library's malloc keeps memory in a process that trains."""

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Names of glibc's malloc.h; `mallopt(3)` explains them."""
_NEVER = -1


def keep_freed_memory() -> bool:
    """Let glibc's malloc keep what is freed for the next request; False, and nothing done, where there is no glibc.

    To be called before large memory is taken: before torch is imported. By itself, glibc takes each buffer of 32 MiB or
    more from the system and gives it back when it is freed, and gives back the top of its heap. A training step asks
    for the same buffers again and again, and then each page is zeroed and mapped anew: 490,000 page faults a step in a
    plain PyTorch loop over 160 million parameters, 164,000 in the engine (which keeps its planes out of malloc), and a
    seventh and a twentieth of the processor time. So set, there are next to none. A higher limit for single mappings
    can't exceed 32 MiB and left them all, huge pages left the zeroing. The price is holes in the heap: at its highest
    the process took 2 to 6 % more at 160 million parameters, 7 to 12 % at 50 million.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    return all([mallopt(_M_MMAP_MAX, 0), mallopt(_M_TRIM_THRESHOLD, _NEVER)])
