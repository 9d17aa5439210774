"""How much memory a device has, in all and free."""

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
