"""What a report says of the machine that it was written on."""

import platform

import horizon_app
from horizon_app.contracts.sizes import show_bytes
from horizon_app.control.doctor.software import torch_version
from horizon_app.control.machine import processor_name
from horizon_app.control.memory import memory_here


def environment_facts() -> dict[str, str]:
    """Name of a fact -> the fact."""
    return {
        "Horizon": horizon_app.__version__,
        "Python": platform.python_version(),
        "PyTorch": torch_version() or "not installed",
        "System": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "Processor": processor_name(),
        "Memory": show_bytes(memory_here().total_bytes),
    }
