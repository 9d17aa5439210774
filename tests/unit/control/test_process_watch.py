"""Whether a process is the one that was started, which processes are a run's, and how all of them end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from horizon_app.control import process_watch
from horizon_app.control.process_watch import (
    RUN_VARIABLE,
    end_leftovers,
    find_worker,
    is_alive,
    processes_of,
    signal_all,
)
from tests.support.server import wait_for

RUN = "20260101-000000-abcdef"
FAMILY = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1); signal.pause()"]
pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
kept = [subprocess.Popen([*sleep], start_new_session=own, **pipes) for own in (False, True)]
for child in kept:
    child.stdout.readline()
print(*(child.pid for child in kept), flush=True)
input()
"""


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A worker with a child in its group, and one that left it for a session of its own; all ignore SIGTERM."""
    worker = subprocess.Popen(
        [sys.executable, "-uc", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, RUN_VARIABLE: RUN, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert worker.stdout is not None
    children = [int(word) for word in worker.stdout.readline().split()]
    yield worker, children
    for pid in (worker.pid, *children):
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
    worker.communicate()


def are_gone(*pids: int) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


def test_process_with_another_start_time_is_not_the_same() -> None:
    start = psutil.Process().create_time()
    assert is_alive(RUN, os.getpid(), start)
    assert not is_alive(RUN, os.getpid(), start - 60)


def test_worker_is_alive_whatever_was_done_to_the_clock_since_it_started(
    family: tuple[subprocess.Popen[str], list[int]],
) -> None:
    worker, _ = family
    start = psutil.Process(worker.pid).create_time()
    assert is_alive(RUN, worker.pid, start + 3600)
    assert not is_alive("20260101-000000-000000", worker.pid, start + 3600)
    worker.kill()
    worker.wait(timeout=20)
    assert not is_alive(RUN, worker.pid, start + 3600)


def test_process_that_ended_but_is_not_buried_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    start = psutil.Process(child.pid).create_time()
    assert is_alive(RUN, child.pid, start)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
    assert not is_alive(RUN, child.pid, start)
    child.communicate()
    assert not is_alive(RUN, child.pid, start)
    assert signal_all(RUN, (child.pid, start), signal.SIGKILL) == 0


def test_processes_of_a_run_are_its_group_and_those_that_left_it(
    family: tuple[subprocess.Popen[str], list[int]],
) -> None:
    worker, children = family
    start = psutil.Process(worker.pid).create_time()
    assert {process.pid for process in processes_of(RUN, (worker.pid, start))} == {worker.pid, *children}
    assert find_worker(RUN) is not None
    assert processes_of("20260101-000000-000000") == []


def test_kill_of_a_run_ends_children_that_ignore_sigterm_and_left_the_group(
    family: tuple[subprocess.Popen[str], list[int]],
) -> None:
    worker, children = family
    known = (worker.pid, psutil.Process(worker.pid).create_time())
    assert signal_all(RUN, known, signal.SIGTERM) == 3
    assert not are_gone(worker.pid)
    assert signal_all(RUN, known, signal.SIGKILL) == 3
    worker.wait(timeout=20)
    wait_for(lambda: are_gone(*children), "the children end")


def test_what_a_dead_worker_left_is_ended_but_not_what_began_later(
    family: tuple[subprocess.Popen[str], list[int]],
) -> None:
    worker, children = family
    known = (worker.pid, psutil.Process(worker.pid).create_time())
    worker.kill()
    worker.wait(timeout=20)
    assert end_leftovers(RUN, known, before=known[1] - 60) == 0
    assert end_leftovers(RUN, known, before=time.time() + 1) == 2
    wait_for(lambda: are_gone(*children), "the children end")


def test_group_whose_number_another_process_has_now_is_left_alone() -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    start = psutil.Process(stranger.pid).create_time()
    assert processes_of(RUN, (stranger.pid, start - 3600)) == []
    stranger.communicate(b"\n")


def test_boot_id_is_the_same_until_the_machine_restarts() -> None:
    assert process_watch.boot_id() == process_watch.boot_id()
