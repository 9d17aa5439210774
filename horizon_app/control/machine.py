"""What this machine has and uses: processor, memory (of the container where there is a limit), disk, CUDA cards."""

import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

import horizon_app
from horizon_app.contracts.machine_view import DeviceUse, DiskUse, HostUse, SystemAnswer
from horizon_app.control.memory import memory_here
from horizon_app.planning.facts import MachineFacts
from horizon_app.settings import AppSettings

SHORTEST_LOOK_S = 1.0
"""Use of processors over less time than this tells of chance: two who ask at once would see 0 or 100%."""


class ProcessorUse:
    """How busy the processors are, the same for all who ask at about the same time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._percent, self._since, self._times = 0.0, now(), _busy_and_all()

    def percent(self) -> float:
        """From 0 to 100, over the last second or more."""
        if self._now() - self._since >= SHORTEST_LOOK_S:
            before, self._times, self._since = self._times, _busy_and_all(), self._now()
            busy, every = (now - then for now, then in zip(self._times, before, strict=True))
            self._percent = round(min(100.0, max(0.0, 100 * busy / every)), 1) if every > 0 else 0.0
        return self._percent


def _busy_and_all() -> tuple[float, float]:
    """Seconds of all processors so far. psutil's own percentage is one a thread: 0 to a thread that never asked."""
    times = psutil.cpu_times()
    every = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)  # user and nice have these
    return every - times.idle - getattr(times, "iowait", 0.0), every


class Machine:
    """Asks the machine; the driver library is opened once."""

    def __init__(self) -> None:
        self._nvml = _open_nvml()
        self._processors = ProcessorUse()

    def facts(self, disk_dir: Path) -> MachineFacts:
        """What a run may count on whose disk tier lies in `disk_dir`."""
        return MachineFacts(
            host_bytes=memory_here().total_bytes, cuda_devices=self._cuda_devices(),
            disk_free_bytes=shutil.disk_usage(disk_dir).free,
        )  # fmt: skip

    def system(self, settings: AppSettings, active_run: str | None) -> SystemAnswer:
        """What the machine has and what it uses now."""
        disk = shutil.disk_usage(settings.home)
        memory = memory_here()
        host = HostUse(
            memory_total=memory.total_bytes, memory_available=memory.available_bytes,
            cpu_count=psutil.cpu_count() or 1, cpu_percent=self._processors.percent(),
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


def _open_nvml() -> Any:
    import pynvml  # pyright: ignore[reportMissingTypeStubs] # here, so that importing the server stays quick

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError):
        return None  # no driver: no card
    return pynvml


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
