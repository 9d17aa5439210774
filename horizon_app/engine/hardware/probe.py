"""How much memory a device has, in all and free."""

from pathlib import Path

import psutil
import torch


def device_memory(device: torch.device) -> int:
    """Bytes of the device's memory; of RAM where the device is the CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return int(psutil.virtual_memory().total)


def free_device_memory(device: torch.device) -> int:
    """Bytes free on the device now; of available RAM where the device is the CPU."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def anonymous_bytes() -> int | None:
    """Anonymous memory that this process may write to, as RLIMIT_DATA counts it; None where the system can't tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="ascii", errors="replace").splitlines())
    return int(lines["VmData"].split()[0]) * 1024
