"""Runs whose disk tier misbehaves, and a worker that is put to sleep: each ends as promised, and never wrongly."""

import errno
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from horizon_app.contracts.events import MetricsRecorded, StateChanged
from horizon_app.engine.memory.disk_io import DiskSystem
from horizon_app.worker.session import Session
from horizon_app.worker.stop_request import StopRequest
from tests.integration.test_worker_engine import exit_code, order, start, trouble
from tests.support.faulty_disk import Fault, FaultKind, FaultyDisk
from tests.support.meagre_worker import on_disk
from tests.support.run_folders import read_journal, states, wait_until

STEPS = 8
SAVED = 4
PAGED: dict[str, Any] = {
    "training": {"optimizer_steps": STEPS, "global_batch_size": 4, "learning_rate": 3e-3, "warmup_steps": 2},
    "offload": {
        "param_block_size": "16KiB", "max_gpu_blocks": 6, "device": "cpu", "policy": "clock_pro", "disk": "on",
        "host_memory": "700KiB",
    },
    "checkpoint": {"every": SAVED, "keep": 3},
}  # fmt: skip


def run(run_dir: Path, system: DiskSystem) -> int:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Session(run_dir, on_disk(system), StopRequest()).run()
    finally:
        torch.set_num_threads(threads)


def losses(run_dir: Path) -> list[float | None]:
    return [event.values["train/loss"] for event in read_journal(run_dir) if isinstance(event, MetricsRecorded)]


def last_reason(run_dir: Path) -> str:
    return [event.reason for event in read_journal(run_dir) if isinstance(event, StateChanged)][-1]


def weights(run_dir: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(run_dir / "checkpoints" / str(step) / "model.safetensors")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose whole state stays in RAM."""
    offload = {**PAGED["offload"], "host_memory": "auto", "disk": "off"}
    run_dir = order(tmp_path_factory.mktemp("healthy"), **{**PAGED, "offload": offload})
    assert run(run_dir, FaultyDisk()) == 0, trouble(run_dir)
    return run_dir


def test_run_on_a_slow_disk_that_ends_transfers_in_any_order_gives_the_same_bits(healthy: Path, tmp_path: Path) -> None:
    run_dir = order(tmp_path, **PAGED)
    disk = FaultyDisk(delay_s=0.0005, jitter_s=0.002, seed=3)
    assert run(run_dir, disk) == 0, trouble(run_dir)
    assert disk.bytes_moved > 0
    assert losses(run_dir) == losses(healthy)
    ours, theirs = weights(run_dir, STEPS), weights(healthy, STEPS)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def fills_up(disk: FaultyDisk) -> None:
    disk.faults.append(Fault(FaultKind.WRITE_ERROR, after=2, errno=errno.ENOSPC))


def fails_to_read(disk: FaultyDisk) -> None:
    disk.faults.append(Fault(FaultKind.READ_ERROR, after=3))


def flips_a_bit(disk: FaultyDisk) -> None:
    disk.faults.append(Fault(FaultKind.FLIPPED_BIT, after=2, times=1))


def loses_a_write(disk: FaultyDisk) -> None:
    disk.faults.append(Fault(FaultKind.LOST_WRITE, after=2, times=1))


class BreaksAfter(FaultyDisk):
    """A disk that goes bad once the checkpoint of step `SAVED` is there.

    The checkpoint is written beside the steps, however long that takes. Two steps later it has read all that it needs
    of this disk, which then waits for it, so that steps are left that can go wrong.
    """

    def __init__(self, run_dir: Path, breaks: Callable[[FaultyDisk], None]) -> None:
        super().__init__(preallocates=False)
        self._run_dir, self._breaks, self.broken = run_dir, breaks, False
        self._checkpoint = run_dir / "checkpoints" / str(SAVED)

    def pwritev(self, fd: int, buffers: Any, offset: int) -> int:
        if not self.broken:
            if len(losses(self._run_dir)) >= SAVED + 2:
                wait_until(self._checkpoint.is_dir, "the checkpoint is there", 60)
            if self._checkpoint.is_dir():
                self.broken = True
                self._breaks(self)
        return super().pwritev(fd, buffers, offset)


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (fills_up, ("disk", "free")), (fails_to_read, ("disk",)), (flips_a_bit, ("checksum",)),
        (loses_a_write, ("generation",)),
    ],
    ids=["fills up", "read error", "flipped bit", "lost write"],
)  # fmt: skip
def test_run_whose_disk_breaks_fails_with_the_reason_and_leaves_the_last_checkpoint_right(
    breaks: Callable[[FaultyDisk], None], words: tuple[str, ...], healthy: Path, tmp_path: Path
) -> None:
    run_dir = order(tmp_path, **PAGED)
    disk = BreaksAfter(run_dir, breaks)
    assert run(run_dir, disk) == 1
    assert disk.broken
    assert states(run_dir)[-1] == "failed"
    for word in words:
        assert word in last_reason(run_dir).lower()
    seen = losses(run_dir)
    assert SAVED <= len(seen) < STEPS
    assert seen == losses(healthy)[: len(seen)], "no step was computed from wrong bytes"
    assert [path.name for path in (run_dir / "checkpoints").iterdir()] == [str(SAVED)]
    ours, theirs = weights(run_dir, SAVED), weights(healthy, SAVED)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_run_on_a_disk_without_room_fails_before_the_first_step_and_names_the_numbers(tmp_path: Path) -> None:
    run_dir = order(tmp_path, **PAGED)
    assert run(run_dir, FaultyDisk(preallocates=False, free=100 << 10)) == 1
    assert losses(run_dir) == []
    assert "100 KiB" in last_reason(run_dir)


def test_worker_that_is_put_to_sleep_goes_on_where_it_was(healthy: Path, tmp_path: Path) -> None:
    run_dir = order(tmp_path, **PAGED)
    worker = start(run_dir)
    wait_until(lambda: len(losses(run_dir)) >= 2, "two steps", 120)
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: _is_stopped(worker.pid), "asleep")
    asleep = len(losses(run_dir))
    heartbeat = (run_dir / "worker.json").read_text()
    worker.send_signal(signal.SIGCONT)
    assert exit_code(worker) == 0, trouble(run_dir)
    assert states(run_dir)[-1] == "finished"
    assert asleep < STEPS
    assert json.loads(heartbeat)["pid"] == worker.pid
    assert losses(run_dir) == pytest.approx(losses(healthy))


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
