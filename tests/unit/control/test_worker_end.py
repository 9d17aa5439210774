"""How a worker's end is put into words, with the cause and the figures."""

from typing import Any

import pytest

from horizon_app.contracts.run_state import Cause
from horizon_app.control.memory import Memory
from horizon_app.control.worker_end import WorkerEnd

MIB = 1 << 20


def end(**known: Any) -> WorkerEnd:
    values: dict[str, Any] = {
        "pid": 4711, "exit_code": None, "oom_kills": 0, "peak_bytes": 3000 * MIB, "rebooted": False,
        "folder_gone": False,
        "memory": Memory(total_bytes=4096 * MIB, available_bytes=1, is_limited=True),
    }  # fmt: skip
    return WorkerEnd(**{**values, **known})


@pytest.mark.parametrize(
    ("known", "cause", "words"),
    [
        ({"exit_code": -9, "oom_kills": 1}, Cause.OUT_OF_MEMORY, "signal 9 (SIGKILL), probably for memory: the kernel"),
        ({"exit_code": -9}, Cause.SIGNAL, "signal 9 (SIGKILL); the kernel reports no kill for memory"),
        ({"exit_code": -11, "oom_kills": 1}, Cause.SIGNAL, "signal 11 (SIGSEGV)"),
        ({"exit_code": -63}, Cause.SIGNAL, "signal 63"),
        ({"exit_code": 3}, Cause.EXIT_CODE, "exit code 3"),
        ({}, Cause.UNKNOWN, "is gone"),
        ({"oom_kills": 2}, Cause.OUT_OF_MEMORY, "is gone, probably for memory: the kernel killed 2 processes"),
        ({"rebooted": True, "oom_kills": 2}, Cause.REBOOT, "the machine was restarted"),
        ({"folder_gone": True, "exit_code": 1}, Cause.FOLDER_GONE, "the run's folder is gone"),
    ],
)
def test_end_is_described_with_its_cause(known: dict[str, Any], cause: Cause, words: str) -> None:
    found = end(**known)
    assert found.cause is cause
    assert words in found.describe() and "4711" in found.describe()


def test_end_by_the_kernel_names_peak_and_limit() -> None:
    text = end(exit_code=-9, oom_kills=1).describe()
    assert "killed 1 process for memory" in text
    assert "it held 2.93 GiB at most, its control group may hold 4 GiB" in text
    whole = Memory(total_bytes=8192 * MIB, available_bytes=1, is_limited=False)
    assert "the machine has 8 GiB" in end(exit_code=-9, oom_kills=1, memory=whole, peak_bytes=None).describe()


def test_end_of_a_process_nobody_knew_is_described() -> None:
    assert end(pid=None).describe() == "the worker process is gone"
