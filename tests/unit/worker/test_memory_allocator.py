import json
import platform
import subprocess
import sys

import pytest

from horizon_app.worker import memory_allocator

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc's malloc")
BUFFER = 96 << 20
WATCH = f"""
import ctypes, json, sys

class Facts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
        ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Facts
libc.malloc.argtypes, libc.malloc.restype, libc.free.argtypes = [ctypes.c_size_t], ctypes.c_void_p, [ctypes.c_void_p]
if sys.argv[1] == "keep":
    from horizon_app.worker.memory_allocator import keep_freed_memory
    assert keep_freed_memory()
before = libc.mallinfo2().hblkhd
address = libc.malloc({BUFFER})
ctypes.memset(address, 1, {BUFFER})
mapped = libc.mallinfo2().hblkhd - before
libc.free(address)
first = libc.mallinfo2()
again = libc.malloc({BUFFER})
libc.free(again)
grown = libc.mallinfo2().arena - first.arena
print(json.dumps({{"mapped": mapped, "free": first.fordblks, "grown": grown}}))
"""


def facts(what: str) -> dict[str, int]:
    done = subprocess.run([sys.executable, "-c", WATCH, what], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_glibc
def test_freed_buffer_with_the_workers_settings_is_kept_and_used_again() -> None:
    kept = facts("keep")
    assert kept["mapped"] == 0
    assert kept["free"] >= BUFFER
    assert kept["grown"] == 0


@needs_glibc
def test_freed_buffer_without_the_settings_goes_back_to_the_system() -> None:
    left = facts("leave")
    assert left["mapped"] >= BUFFER
    assert left["free"] < BUFFER


def test_allocator_without_glibc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not memory_allocator.keep_freed_memory()
