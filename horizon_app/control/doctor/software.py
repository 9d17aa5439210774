"""Versions: Python, torch, the driver. torch is not imported: its version file is read."""

import platform
import re
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

from horizon_app.contracts.checks import Check, Verdict
from horizon_app.contracts.sizes import show_bytes
from horizon_app.control.doctor.kernel import check

_OLDEST_PYTHON = (3, 11)


def software_checks() -> list[Check]:
    """Python, torch, driver."""
    build, cards = torch_cuda(), _Cards()
    return [_python(), _torch(build, cards), _driver(build, cards)]


def torch_version() -> str | None:
    """The version of torch that is installed."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def torch_cuda() -> str | None:
    """The CUDA version that the installed torch was built for, for example 12.8; None for a build without."""
    found = util.find_spec("torch")
    if found is None or found.origin is None:
        return None
    try:
        text = Path(found.origin).with_name("version.py").read_text()
    except OSError:
        return None
    version = re.search(r"^cuda\b.*=\s*'([\d.]+)'", text, flags=re.MULTILINE)
    return version[1] if version else None


def _python() -> Check:
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    evidence = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    fault = None if sys.version_info >= _OLDEST_PYTHON else (Verdict.PROBLEM, f"install Python {oldest} or newer")
    return check("python", "Python", evidence=evidence, threshold=f"{oldest} or newer", fault=fault)


class _Cards:
    """CUDA cards as the driver tells of them."""

    def __init__(self) -> None:
        import pynvml  # pyright: ignore[reportMissingTypeStubs] # here: the server starts without it

        nvml: Any = pynvml
        self.driver, self.cuda, self.names = "", (0, 0), list[str]()
        try:
            nvml.nvmlInit()
        except (nvml.NVMLError, OSError):
            return
        try:
            self.driver = str(nvml.nvmlSystemGetDriverVersion())
            number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
            self.cuda = number // 1000, number % 1000 // 10
            self.names = [_card(nvml, index) for index in range(int(nvml.nvmlDeviceGetCount()))]
        except nvml.NVMLError as error:
            self.names.append(f"a card that does not answer ({error})")
        finally:
            nvml.nvmlShutdown()


def _card(nvml: Any, index: int) -> str:
    card = nvml.nvmlDeviceGetHandleByIndex(index)
    return f"{nvml.nvmlDeviceGetName(card)} with {show_bytes(int(nvml.nvmlDeviceGetMemoryInfo(card).total))}"


def _torch(build: str | None, cards: _Cards) -> Check:
    threshold = "installed, and built for CUDA where there is a card"
    version = torch_version()
    if version is None:
        fault = Verdict.PROBLEM, "install Horizon again: pip install ."
        return check("torch", "PyTorch", evidence="not installed", threshold=threshold, fault=fault)
    evidence = f"{version}, built for {f'CUDA {build}' if build else 'the CPU'}"
    fault = None
    if cards.names and build is None:
        fault = Verdict.WARNING, "the card is not used: install a build of torch for CUDA"
    return check("torch", "PyTorch", evidence=evidence, threshold=threshold, fault=fault)


def _driver(build: str | None, cards: _Cards) -> Check:
    threshold = f"CUDA {build} or newer" if build else ""
    if not cards.driver:
        evidence = "no NVIDIA driver answers: runs train on the CPU"
        fault = None if build is None else (Verdict.WARNING, "install NVIDIA's driver if this machine has a card")
        return check("driver", "Driver and cards", evidence=evidence, threshold=threshold, fault=fault)
    cuda = ".".join(map(str, cards.cuda))
    evidence = f"driver {cards.driver} for CUDA {cuda}; {', '.join(cards.names) or 'no card'}"
    fault = None
    # Within one major version a newer toolkit runs on an older driver.
    if build is not None and int(build.partition(".")[0]) > cards.cuda[0]:
        fault = Verdict.PROBLEM, f"the driver is too old for this torch: update it to one for CUDA {build}"
    return check("driver", "Driver and cards", evidence=evidence, threshold=threshold, fault=fault)
