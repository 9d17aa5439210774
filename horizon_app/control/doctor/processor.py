"""The processor: what it can compute with, huge pages, the clock."""

import platform

import psutil

from horizon_app.contracts.checks import Check, Verdict
from horizon_app.control.doctor.kernel import check, chosen, told

_WORTH_TELLING = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8", "asimd", "sve")
_SLOW_CLOCKS = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"}
_SYSTEM = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def processor_checks() -> list[Check]:
    """Instructions, huge pages, clock source."""
    return [_processor(told("/proc/cpuinfo")), _huge_pages(), _clock(told(_SYSTEM))]


def _processor(cpuinfo: str) -> Check:
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in cpuinfo.splitlines())}
    flags = set((facts.get("flags") or facts.get("Features") or "").split())
    named = [flag for flag in _WORTH_TELLING if flag in flags]
    name = facts.get("model name") or platform.processor() or platform.machine()
    evidence = f"{name}, {psutil.cpu_count() or 1} processors; {', '.join(named) or 'no wide instructions'}"
    fault = None
    if flags and not flags & {"avx2", "asimd"}:
        fault = Verdict.WARNING, "training on this processor is very slow: use another machine, or a card"
    return check("processor", "Processor", evidence=evidence, threshold="AVX2 or better (bf16: AMX)", fault=fault)


def _huge_pages() -> Check:
    mode = chosen(told("/sys/kernel/mm/transparent_hugepage/enabled"))
    fix = "large weights then cost more page faults: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    return check(
        "huge_pages", "Transparent huge pages", evidence=mode or "the kernel does not tell",
        threshold="always or madvise", fault=(Verdict.WARNING, fix) if mode == "never" else None,
    )  # fmt: skip


def _clock(source: str) -> Check:
    fix = "every reading of the time is a slow call: boot with tsc=reliable, or look why the kernel gave up the TSC"
    return check(
        "clock", "Clock source", evidence=source or "the kernel does not tell",
        threshold="one that is read without a system call: tsc, kvm-clock, arch_sys_counter",
        fault=(Verdict.WARNING, fix) if source in _SLOW_CLOCKS else None,
    )  # fmt: skip
