"""Whether a worker process lives, how it died, and how to end it."""

import os
import signal

import psutil

_CLOCK_SLACK_S = 2.0


def is_alive(pid: int, start_time: float) -> bool:
    """Whether this very process runs; another one with the same id, or one that nobody has buried, does not count."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - start_time) < _CLOCK_SLACK_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a worker and all that it started; it leads its own group."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def describe_end(pid: int | None, exit_code: int | None, oom_kills: int) -> str:
    """How a worker that left no final state ended, in words."""
    who = "the worker process" if pid is None else f"the worker process {pid}"
    memory = f"the kernel killed {oom_kills} processes for memory meanwhile" if oom_kills else ""
    if exit_code is None:
        return f"{who} is gone" + (f", probably killed for memory ({memory})" if memory else "")
    if exit_code >= 0:
        return f"{who} ended with exit code {exit_code} and no final state"
    name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else "an unknown signal"
    text = f"{who} was killed by signal {-exit_code} ({name})"
    if exit_code == -signal.SIGKILL:
        text += f", probably for memory: {memory}" if memory else "; the kernel reports no kill for memory"
    return text
