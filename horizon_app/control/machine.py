"""What this machine has and uses: processor, memory (of the container where there is a limit), disk, CUDA cards."""

import platform
import shutil
from pathlib import Path
from typing import Any

import psutil

import horizon_app
from horizon_app.contracts.machine_view import DeviceUse, DiskUse, HostUse, SystemAnswer
from horizon_app.planning.facts import MachineFacts
from horizon_app.settings import AppSettings

_CGROUP = Path("/sys/fs/cgroup")


class Machine:
    """Asks the machine; the driver library is opened once."""

    def __init__(self) -> None:
        self._nvml = _open_nvml()
        psutil.cpu_percent()  # begins the first interval

    def facts(self, disk_dir: Path) -> MachineFacts:
        """What a run may count on whose disk tier lies in `disk_dir`."""
        return MachineFacts(
            host_bytes=memory_total(), cuda_devices=self._cuda_devices(),
            disk_free_bytes=shutil.disk_usage(disk_dir).free,
        )  # fmt: skip

    def system(self, settings: AppSettings, active_run: str | None) -> SystemAnswer:
        """What the machine has and what it uses now."""
        disk = shutil.disk_usage(settings.home)
        total = memory_total()
        host = HostUse(
            memory_total=total, memory_available=min(memory_available(), total),
            cpu_count=psutil.cpu_count() or 1, cpu_percent=psutil.cpu_percent(),
        )  # fmt: skip
        return SystemAnswer(
            version=horizon_app.__version__, home=str(settings.home), device=self._device(host), host=host,
            disk=DiskUse(path=str(settings.home), total=disk.total, free=disk.free), active_run=active_run,
        )  # fmt: skip

    def _cuda_devices(self) -> int:
        if self._nvml is None:
            return 0
        try:
            return int(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError:
            return 0

    def _device(self, host: HostUse) -> DeviceUse:
        if self._nvml is not None and self._cuda_devices():
            try:
                card = self._nvml.nvmlDeviceGetHandleByIndex(0)
                memory = self._nvml.nvmlDeviceGetMemoryInfo(card)
                name = str(self._nvml.nvmlDeviceGetName(card))
                return DeviceUse(kind="cuda", name=name, memory_total=int(memory.total), memory_used=int(memory.used))
            except self._nvml.NVMLError:
                return DeviceUse(kind="cuda", name="CUDA card", memory_total=0, memory_used=None)
        used = host.memory_total - host.memory_available
        return DeviceUse(kind="cpu", name=processor_name(), memory_total=host.memory_total, memory_used=used)


def oom_kills() -> int:
    """How many processes the kernel has killed for memory, here and in this container: compare before and after."""
    total = 0
    for path in (Path("/proc/vmstat"), _CGROUP / "memory.events"):
        for line in _read(path).splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.strip().isdigit():
                total += int(count)
    return total


def _open_nvml() -> Any:
    import pynvml  # pyright: ignore[reportMissingTypeStubs] # here, so that importing the server stays quick

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError):
        return None  # no driver: no card
    return pynvml


def memory_total() -> int:
    """Bytes of this machine, or of the container where that is less."""
    limit = _read(_CGROUP / "memory.max").strip()
    total = int(psutil.virtual_memory().total)
    return min(total, int(limit)) if limit.isdigit() else total


def memory_available() -> int:
    """Bytes that can be had without swapping, within the container's limit."""
    available = int(psutil.virtual_memory().available)
    limit, used = _read(_CGROUP / "memory.max").strip(), _read(_CGROUP / "memory.current").strip()
    if not (limit.isdigit() and used.isdigit()):
        return available
    cached = sum(
        int(count)
        for name, _, count in (line.partition(" ") for line in _read(_CGROUP / "memory.stat").splitlines())
        if name == "inactive_file"
    )
    return min(available, max(0, int(limit) - int(used) + cached))


def processor_name() -> str:
    """The processor's own name for itself."""
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
