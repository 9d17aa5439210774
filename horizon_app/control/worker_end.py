"""How a worker that left no final state has ended: the cause, and what is told of it."""

import signal
from dataclasses import dataclass

from horizon_app.contracts.run_state import Cause
from horizon_app.contracts.sizes import show_bytes
from horizon_app.control.memory import Memory


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerEnd:
    """What is known of it."""

    pid: int | None
    exit_code: int | None
    """Negative for a signal; None where another process was its parent."""
    oom_kills: int
    """Processes that the kernel killed for memory while it ran."""
    peak_bytes: int | None
    """The most memory it was ever seen to hold."""
    memory: Memory
    rebooted: bool
    folder_gone: bool

    @property
    def cause(self) -> Cause:
        """In one word."""
        if self.rebooted:
            return Cause.REBOOT
        if self.folder_gone:
            return Cause.FOLDER_GONE
        if self.oom_kills and self.exit_code in (None, -signal.SIGKILL):
            return Cause.OUT_OF_MEMORY
        if self.exit_code is None:
            return Cause.UNKNOWN
        return Cause.SIGNAL if self.exit_code < 0 else Cause.EXIT_CODE

    def describe(self) -> str:
        """In one sentence, with the numbers."""
        who = "the worker process" if self.pid is None else f"the worker process {self.pid}"
        if self.rebooted:
            return f"the machine was restarted while the run was live (a reboot, or it lost its power): {who} is gone"
        if self.folder_gone:
            return f"{who} ended itself: the run's folder is gone"
        if self.exit_code is not None and self.exit_code >= 0:
            return f"{who} ended with exit code {self.exit_code} and no final state"
        if self.exit_code is None:
            text = f"{who} is gone"
        else:
            known = -self.exit_code in set(signal.Signals)
            name = signal.Signals(-self.exit_code).name if known else "an unknown signal"
            text = f"{who} was killed by signal {-self.exit_code} ({name})"
        return f"{text}{self._memory_words()}"

    def _memory_words(self) -> str:
        if self.exit_code not in (None, -signal.SIGKILL):
            return ""
        if self.oom_kills:
            processes = "1 process" if self.oom_kills == 1 else f"{self.oom_kills} processes"
            return f", probably for memory: the kernel killed {processes} for memory meanwhile; {self._figures()}"
        return f"; the kernel reports no kill for memory; {self._figures()}" if self.exit_code is not None else ""

    def _figures(self) -> str:
        peak = "" if self.peak_bytes is None else f"it held {show_bytes(self.peak_bytes)} at most, "
        whose = "its control group may hold" if self.memory.is_limited else "the machine has"
        return f"{peak}{whose} {show_bytes(self.memory.total_bytes)}"
