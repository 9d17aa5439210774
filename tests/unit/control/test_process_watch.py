"""Whether a process is the one that was started, and how its end is put into words."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from horizon_app.control.process_watch import describe_end, is_alive, signal_group


def test_process_with_another_start_time_is_not_the_same() -> None:
    start = psutil.Process().create_time()
    assert is_alive(os.getpid(), start)
    assert not is_alive(os.getpid(), start - 60)


def test_process_that_ended_but_is_not_buried_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    start = psutil.Process(child.pid).create_time()
    assert is_alive(child.pid, start)
    signal_group(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
    assert not is_alive(child.pid, start)
    child.communicate()
    assert not is_alive(child.pid, start)
    signal_group(child.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("code", "kills", "words"),
    [
        (-9, 2, "signal 9 (SIGKILL), probably for memory: the kernel killed 2"),
        (-9, 0, "signal 9 (SIGKILL); the kernel reports no kill for memory"),
        (-11, 0, "signal 11 (SIGSEGV)"),
        (3, 0, "exit code 3"),
        (None, 0, "is gone"),
        (None, 1, "probably killed for memory"),
    ],
)
def test_end_is_described_with_its_cause(code: int | None, kills: int, words: str) -> None:
    text = describe_end(4711, code, kills)
    assert words in text and "4711" in text


def test_end_of_a_process_nobody_knew_is_described() -> None:
    assert describe_end(None, None, 0) == "the worker process is gone"
