"""Memory and disks that give less than was hoped for: odd file systems, little pinned memory, kills for memory."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from safetensors.torch import load_file

from horizon_app.api.app import create_app
from horizon_app.contracts.events import LogWritten, MetricsRecorded
from horizon_app.contracts.run_state import Cause, RunState
from horizon_app.control import launcher, machine, supervisor
from horizon_app.control.memory import Memory
from horizon_app.control.workstation import Workstation
from horizon_app.engine.memory import pinning
from horizon_app.engine.memory.disk_io import DiskSystem
from horizon_app.engine.memory.disk_store import new_buffer
from horizon_app.engine.memory.disk_tier import DiskTier
from horizon_app.engine.streaming.backends.cpu import CpuBackend
from horizon_app.settings import AppSettings
from tests.integration.test_disk_tier import run
from tests.integration.test_worker_engine import order, trouble
from tests.support.commands import run_horizon
from tests.support.faulty_disk import FaultyDisk
from tests.support.meagre_worker import LittleLockedMemory
from tests.support.run_folders import read_journal
from tests.support.server import furnish_home, scripted_spec
from tests.support.small_model import write_rhyme, write_small_model

MIB = 1 << 20
STEPS = 4
ON_DISK: dict[str, Any] = {
    "training": {"optimizer_steps": STEPS, "global_batch_size": 2, "learning_rate": 3e-3, "warmup_steps": 2},
    "offload": {
        "param_block_size": "16KiB", "max_gpu_blocks": 6, "device": "cpu", "disk": "on", "host_memory": "700KiB",
    },
    "checkpoint": {"every": 0},
}  # fmt: skip
IN_RAM: dict[str, Any] = {**ON_DISK, "offload": {**ON_DISK["offload"], "disk": "off", "host_memory": "auto"}}


def losses(run_dir: Path) -> list[float | None]:
    return [event.values["train/loss"] for event in read_journal(run_dir) if isinstance(event, MetricsRecorded)]


def warnings(run_dir: Path, words: str) -> list[str]:
    found = [event for event in read_journal(run_dir) if isinstance(event, LogWritten) and event.level == "warning"]
    return [event.message for event in found if words in event.message]


def trained(folder: Path, system: DiskSystem, **sections: Any) -> Path:
    run_dir = order(folder, **sections)
    assert run(run_dir, system) == 0, trouble(run_dir)
    return run_dir


@pytest.fixture(scope="module")
def in_ram(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose whole state stays in pageable RAM."""
    return trained(tmp_path_factory.mktemp("ram"), FaultyDisk(), **IN_RAM)


def same_weights(one: Path, other: Path) -> bool:
    ours, theirs = (load_file(run_dir / "checkpoints" / str(STEPS) / "model.safetensors") for run_dir in (one, other))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


# -- D05: O_DIRECT is refused, lengths are odd


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system in memory, where there is one."""
    shared = Path("/dev/shm")
    folder = shared / f"horizon-test-{os.getpid()}" if os.access(shared, os.W_OK) else tmp_path / "tier"
    folder.mkdir()
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@pytest.mark.parametrize("direct", [True, False], ids=["as the kernel says", "refused with EINVAL"])
def test_pages_of_odd_lengths_come_back_from_a_file_system_in_memory(memory_folder: Path, direct: bool) -> None:
    sizes = [1, 511, 4097, 0]
    tier = DiskTier(memory_folder, system=FaultyDisk(direct=direct))
    store = tier.new_store(sizes)
    for page, size in enumerate(sizes):
        written, read = new_buffer(size), new_buffer(size)
        written[:size] = torch.arange(page, page + size) % 251
        store.write(page, written).wait()
        store.read(page, read).wait()
        assert torch.equal(read[:size], written[:size])
    tier.close()
    assert list(memory_folder.iterdir()) == []


@pytest.mark.slow
def test_run_whose_disk_refuses_direct_transfers_gives_the_same_bits_with_one_notice(
    in_ram: Path, memory_folder: Path, tmp_path: Path
) -> None:
    offload = {**ON_DISK["offload"], "disk_path": str(memory_folder)}
    run_dir = trained(tmp_path, FaultyDisk(direct=False), **{**ON_DISK, "offload": offload})
    assert len(warnings(run_dir, "takes no direct transfers (O_DIRECT)")) == 1
    assert losses(run_dir) == losses(in_ram)
    assert same_weights(run_dir, in_ram)


# -- D10: little memory may be page-locked


@pytest.mark.slow
def test_run_whose_pages_are_not_all_locked_completes_with_one_notice_and_the_same_loss(
    in_ram: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = LittleLockedMemory()
    monkeypatch.setattr(pinning, "register", memory.register)
    monkeypatch.setattr(pinning, "unregister", memory.unregister)
    monkeypatch.setattr(CpuBackend, "pins_host_memory", True)
    run_dir = trained(tmp_path, FaultyDisk(), **IN_RAM)
    (notice,) = warnings(run_dir, "page-locked")
    assert "refused with CUDA error 2" in notice and "gives the same numbers" in notice
    assert losses(run_dir) == losses(in_ram)
    assert same_weights(run_dir, in_ram)
    assert memory.locked == [], "what was locked is unlocked"


# -- D05 and D10 through the command line


@pytest.mark.slow
def test_run_by_the_command_line_on_such_a_machine_tells_each_once_and_has_the_same_losses(
    in_ram: Path, memory_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    write_small_model(tmp_path / "model")
    write_rhyme(tmp_path / "corpus.txt")
    spec = {
        **ON_DISK, "model": {"path": "model", "init": "random"}, "precision": {"compute": "fp32"},
        "data": {"path": "corpus.txt", "sequence_length": 64},
        "offload": {**ON_DISK["offload"], "disk_path": str(memory_folder), "host_memory": "2MiB"},  # a part of it
    }  # fmt: skip
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    home = tmp_path / "home"
    done = run_horizon("run", tmp_path / "spec.yaml", "--json", home=home, worker="tests.support.meagre_worker")
    assert done.exit_code == 0, done.stderr
    for notice in ("takes no direct transfers (O_DIRECT)", "can't all be page-locked"):
        assert done.stderr.count(notice) == 1, done.stderr
    run_id = json.loads(done.stdout)["id"]
    exported = json.loads(run_horizon("runs", "export", run_id, "--format", "json", home=home).stdout)
    assert exported["metrics"]["train/loss"]["y"] == losses(in_ram)
    assert list(memory_folder.iterdir()) == []


# -- D08: host memory runs out


def test_worker_that_the_kernel_killed_for_memory_leaves_peak_and_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case's word is `failed`; ours for a worker that vanished is `interrupted`."""
    limit = Memory(total_bytes=4096 * MIB, available_bytes=MIB, is_limited=True)
    monkeypatch.setattr(supervisor, "memory_here", lambda: limit)
    monkeypatch.setattr(launcher, "oom_kills", lambda: 3)  # when the worker was started
    monkeypatch.setattr(supervisor, "oom_kills", lambda: 4)
    settings = AppSettings(
        home=furnish_home(tmp_path / "home"), worker_module="tests.support.scripted_worker", check_data=False
    )
    with Workstation(settings) as station:
        run_id = station.submit(scripted_spec(20, die_at=4), base_dir=settings.home).id
        run = asyncio.run(station.supervise(run_id, lambda _frame: None))
    assert (run.state, run.cause, run.exit_status, run.resumable) == (
        RunState.INTERRUPTED, Cause.OUT_OF_MEMORY, -9, True,
    )  # fmt: skip
    assert "signal 9 (SIGKILL), probably for memory: the kernel killed 1 process for memory meanwhile" in run.reason
    assert "its control group may hold 4 GiB" in run.reason
    assert "3 optimizer steps done" in run.reason


def test_run_that_needs_more_than_the_control_group_may_hold_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = Memory(total_bytes=16 * MIB, available_bytes=MIB, is_limited=True)
    monkeypatch.setattr(machine, "memory_here", lambda: limit)
    home = furnish_home(tmp_path / "home")
    app = create_app(AppSettings(home=home, worker_module="tests.support.scripted_worker", check_data=False))
    spec = {**scripted_spec(5), "offload": {"disk": "off"}}
    spec["model"] = {"path": "models/large", "init": "random"}
    (home / "models" / "large").mkdir()
    config = (home / "models" / "tiny" / "config.json").read_text().replace('"vocab_size": 256', '"vocab_size": 65536')
    (home / "models" / "large" / "config.json").write_text(config)
    (home / "models" / "large" / "tokenizer.json").write_text("{}")
    with TestClient(app, base_url="http://127.0.0.1:8321") as client:
        answer = client.post("/api/v1/runs", json={"spec": spec})
        assert answer.status_code == 422, answer.text
        (problem,) = answer.json()["errors"]
        assert problem["field"].startswith("offload.") and "16.00 MiB" in problem["message"], problem
        assert problem["fix"]
        assert client.get("/api/v1/runs").json()["runs"] == []
