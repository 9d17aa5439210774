"""Whether a worker process lives, which processes it has started, and how to end them all."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil

RUN_VARIABLE = "HORIZON_RUN_ID"
"""Set for a worker and so for all that it starts, wherever they move themselves: the run's id."""
_CLOCK_SLACK_S = 2.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def is_alive(run_id: str, pid: int, start_time: float) -> bool:
    """Whether a run's worker runs: another process with the same id, or one that nobody has buried, does not count.

    When a process started is told by the clock on the wall, which may have been set since: then its variable tells.
    """
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - start_time) < _CLOCK_SLACK_S or _belongs(process, run_id, None)
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def boot_id() -> str | None:
    """Changes with each start of the machine; None where the system has none."""
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def processes_of(run_id: str, worker: tuple[int, float] | None = None) -> list[psutil.Process]:
    """A run's worker and all that it has started: by the variable, and by the group that it leads, or led.

    `worker` is its process id and start time. Processes that nobody has buried are left out.
    """
    group = worker[0] if worker is not None and _may_still_lead(*worker) else None
    return [process for process in _others() if _belongs(process, run_id, group)]


def runs_with_processes() -> set[str]:
    """Ids of the runs of which anything lives: a worker, or what one has started."""
    return {run_id for process in _others() if (run_id := _run_of(process))}


def signal_all(run_id: str, worker: tuple[int, float] | None, number: signal.Signals) -> int:
    """Send a signal to a run's worker and all that it has started; gives how many there were."""
    found = processes_of(run_id, worker)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)
    return len(found)


def end_leftovers(run_id: str, worker: tuple[int, float] | None, before: float) -> int:
    """Kill what a worker that is gone has left running, if it started `before` that moment; gives how many."""
    ended = 0
    for process in processes_of(run_id, worker):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.create_time() < before:
                process.kill()
                ended += 1
    return ended


def find_worker(run_id: str) -> tuple[int, float] | None:
    """Process id and start time of a run's worker, where nobody wrote them down: it leads its group."""
    for process in processes_of(run_id):
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == process.pid:
                return process.pid, process.create_time()
    return None


def _others() -> Iterator[psutil.Process]:
    own = os.getpid()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.pid != own and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _belongs(process: psutil.Process, run_id: str, group: int | None) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        if group is not None and os.getpgid(process.pid) == group:
            return True
    return _run_of(process) == run_id


def _run_of(process: psutil.Process) -> str | None:
    """The run that the process works for, where it may be asked."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return process.environ().get(RUN_VARIABLE)
    return None


def _may_still_lead(pid: int, start_time: float) -> bool:
    """Whether the group of that number can only be this worker's: no other process has its id now."""
    try:
        return abs(psutil.Process(pid).create_time() - start_time) < _CLOCK_SLACK_S
    except psutil.NoSuchProcess:
        return True
