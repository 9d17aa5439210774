"""Memory: how much there is, what a container allows, swap, kills, shared memory, what can be pinned."""

import json
import resource
import shutil
import subprocess
import sys

import psutil

from horizon_app.contracts.checks import Check, Verdict
from horizon_app.contracts.sizes import show_bytes
from horizon_app.control.doctor.kernel import check, told
from horizon_app.control.memory import memory_here, oom_kills

_LEAST_BYTES = 4 << 30
_LEAST_FREE_BYTES = 2 << 30
_MOST_SWAPPED_BYTES = 1 << 30
_LEAST_SHARED_BYTES = 256 << 20
_PIN_PROBE = "horizon_app.engine.hardware.pin_probe"
_PIN_PROBE_S = 90


def memory_checks() -> list[Check]:
    """Memory, swap, kills, /dev/shm, pinnable memory."""
    return [_memory(), _swap(), _kills(oom_kills()), _shared(), _pinnable()]


def _memory() -> Check:
    machine, memory = int(psutil.virtual_memory().total), memory_here()
    total, free = memory.total_bytes, memory.available_bytes
    limit = (
        f"limited to {show_bytes(total)} by the control group, of {show_bytes(machine)}"
        if total < machine
        else show_bytes(total)
    )
    fault = None
    if total < _LEAST_BYTES:
        fault = Verdict.WARNING, "only small models fit: give the machine, or the container, more memory"
    elif free < _LEAST_FREE_BYTES:
        fault = Verdict.WARNING, "end other programs, or set offload.host_memory so that weights go to disk"
    threshold = f"{show_bytes(_LEAST_BYTES)} in all, {show_bytes(_LEAST_FREE_BYTES)} free"
    return check("memory", "Memory", evidence=f"{limit}; {show_bytes(free)} free", threshold=threshold, fault=fault)


def _swap() -> Check:
    swap = psutil.swap_memory()
    fault = None
    if swap.used > _MOST_SWAPPED_BYTES:
        fault = Verdict.WARNING, "memory is too full: end other programs, or lower offload.host_memory"
    evidence = f"{show_bytes(swap.used)} of {show_bytes(swap.total)} in use" if swap.total else "none"
    threshold = f"at most {show_bytes(_MOST_SWAPPED_BYTES)} in use"
    return check("swap", "Swap", evidence=evidence, threshold=threshold, fault=fault)


def _kills(count: int) -> Check:
    fix = "look at `journalctl -k | grep -i oom`; if runs were killed, lower offload.host_memory"
    fault = (Verdict.WARNING, fix) if count else None
    evidence = f"{count} process{'' if count == 1 else 'es'} since the boot"
    return check("memory_kills", "Killed for memory", evidence=evidence, threshold="none", fault=fault)


def _shared() -> Check:
    threshold = f"{show_bytes(_LEAST_SHARED_BYTES)} or more"
    try:
        size = shutil.disk_usage("/dev/shm")  # noqa: S108 - looked at, nothing is written there
    except OSError:
        fault = Verdict.WARNING, "mount a tmpfs at /dev/shm"
        return check("shared_memory", "Shared memory", evidence="no /dev/shm", threshold=threshold, fault=fault)
    fault = None
    if size.total < _LEAST_SHARED_BYTES:
        fault = Verdict.WARNING, "in a container: start it with --shm-size=1g or --ipc=host"
    evidence = f"{show_bytes(size.total)}, {show_bytes(size.free)} free"
    return check("shared_memory", "Shared memory", evidence=evidence, threshold=threshold, fault=fault)


def _pinnable() -> Check:
    """On a card by trying, in a process of its own that loads torch; else what the limit allows to be locked."""
    title, threshold = "Pinnable memory", "half of the memory, so that copies run beside the computing"
    probed = _probe() if _has_card() else None
    if probed is not None:
        fault = None
        if probed < memory_here().total_bytes // 4:
            fault = Verdict.WARNING, "raise the limit of locked memory (ulimit -l), or the container's memory"
        evidence = f"{show_bytes(probed)} were pinned at once"
        return check("pinnable", title, evidence=evidence, threshold=threshold, fault=fault)
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    allowed = "without limit" if soft == resource.RLIM_INFINITY else f"up to {show_bytes(soft)}"
    evidence = f"no card, so nothing has to be pinned; locked memory is allowed {allowed}"
    return check("pinnable", title, evidence=evidence, threshold=threshold, fault=None)


def _has_card() -> bool:
    return bool(told("/proc/driver/nvidia/version"))


def _probe() -> int | None:
    """Bytes that CUDA pinned at once; None where the probe came to no end."""
    most = memory_here().available_bytes // 2
    try:
        done = subprocess.run(
            [sys.executable, "-m", _PIN_PROBE, str(most)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PIN_PROBE_S, check=True,
        )  # fmt: skip
        return int(json.loads(done.stdout)["pinned_bytes"])
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return None
