"""Memory of this machine, or of the control group that bounds this process, of either version; and kills for memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_GROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What processes here may take."""

    total_bytes: int
    available_bytes: int
    is_limited: bool
    """Whether a control group allows less than the machine has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    """How the files of a memory group are called."""

    limit: str
    used: str
    cache: str
    kills: str


_V2 = _Names(limit="memory.max", used="memory.current", cache="inactive_file", kills="memory.events")
_V1 = _Names(
    limit="memory.limit_in_bytes", used="memory.usage_in_bytes", cache="total_inactive_file", kills="memory.oom_control"
)  # fmt: skip


def memory_here(groups: Path = _GROUPS, proc: Path = _PROC) -> Memory:
    """What this process and its children may take: the tightest limit on the way up counts."""
    machine = psutil.virtual_memory()
    total, available = int(machine.total), int(machine.available)
    for folder, names in _memory_groups(groups, proc):
        limit, used = _read(folder / names.limit).strip(), _read(folder / names.used).strip()
        if not limit.isdigit() or int(limit) >= int(machine.total):
            continue  # version 1 writes a number beyond all memory where there is no limit
        total = min(total, int(limit))
        if used.isdigit():
            cached = _count(folder / "memory.stat", names.cache) or 0
            available = min(available, max(0, int(limit) - int(used) + cached))
    return Memory(total_bytes=total, available_bytes=min(available, total), is_limited=total < int(machine.total))


def oom_kills(groups: Path = _GROUPS, proc: Path = _PROC) -> int:
    """How many processes the kernel has killed for memory: compare before and after.

    Of this control group where it counts them, for the machine's count has the kills of other containers in it.
    """
    for folder, names in _memory_groups(groups, proc):
        count = _count(folder / names.kills, "oom_kill")
        if count is not None:
            return count
    return _count(proc / "vmstat", "oom_kill") or 0


def _memory_groups(groups: Path, proc: Path) -> Iterator[tuple[Path, _Names]]:
    """The groups that this process is in, the innermost first."""
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        root, names = (groups / "memory", _V1) if controllers else (groups, _V2)
        folder = root / path.lstrip("/")
        while folder != root and root in folder.parents:
            yield folder, names
            folder = folder.parent
        yield root, names


def _count(path: Path, wanted: str) -> int | None:
    for line in _read(path).splitlines():
        name, _, count = line.partition(" ")
        if name == wanted and count.strip().isdigit():
            return int(count)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
