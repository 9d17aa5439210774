"""What the system allows this user's processes: open files, locked memory, core dumps."""

import resource

from horizon_app.contracts.checks import Check, Verdict
from horizon_app.contracts.sizes import show_bytes
from horizon_app.control.doctor.kernel import check, told

_LEAST_FILES = 4096


def limit_checks() -> list[Check]:
    """Open files, locked memory, core dumps."""
    return [_files(), _locked(), _core()]


def _files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fault = None
    if soft != resource.RLIM_INFINITY and soft < _LEAST_FILES:
        fault = Verdict.WARNING, f"ulimit -n {_LEAST_FILES}, or LimitNOFILE={_LEAST_FILES} in the systemd unit"
    evidence = f"{_count(soft)} (hard limit {_count(hard)})"
    return check("open_files", "Open files", evidence=evidence, threshold=f"{_LEAST_FILES} or more", fault=fault)


def _locked() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    evidence = "unlimited" if soft == resource.RLIM_INFINITY else show_bytes(soft)
    return check("locked_memory", "Locked memory", evidence=evidence, fault=None)


def _core() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    pattern = told("/proc/sys/kernel/core_pattern")
    fault = None
    if soft == resource.RLIM_INFINITY and not pattern.startswith("|"):
        fault = Verdict.WARNING, "a crash writes all memory of a run to disk: ulimit -c 0"
    evidence = f"{'unlimited' if soft == resource.RLIM_INFINITY else show_bytes(soft)}, pattern {pattern or 'unknown'}"
    threshold = "limited, or handed to a program"
    return check("core_dumps", "Core dumps", evidence=evidence, threshold=threshold, fault=fault)


def _count(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
