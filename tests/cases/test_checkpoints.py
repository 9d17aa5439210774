"""Checkpoints that go wrong: full disks, half-written folders, rotation, and runs that must go on as if nothing was."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from tests.support.commands import ROOT, run_horizon, start_horizon, write_spec
from tests.support.run_folders import wait_until
from tests.support.server import ServerProcess

INPUTS = Path(__file__).parent / "inputs"
TINY = INPUTS / "_common" / "tiny-llama"
ON_CPU = {"device": "cpu", "param_block_size": "16KiB", "max_gpu_blocks": 8}


def horizon(*arguments: str | Path, **environment: str) -> Any:
    """`horizon ... --json` as a process, with a real worker; gives its object."""
    done = subprocess.run(
        [sys.executable, "-m", "horizon_app", *map(str, arguments), "--json"], capture_output=True, text=True,
        check=False, timeout=150, cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def ending(after: int, by: str = "SIGTERM") -> dict[str, str]:
    """An environment in which a real worker gets a signal after an optimizer step."""
    return {
        "HORIZON_WORKER_MODULE": "tests.support.ending_worker", "HORIZON_END_AFTER": str(after), "HORIZON_END_BY": by,
    }  # fmt: skip


def runs_dir() -> Path:
    return Path(os.environ["HORIZON_HOME"]) / "runs"


# -- C09: resumed in the second epoch


@pytest.fixture
def server(_own_home: Path) -> Iterator[ServerProcess]:
    (_own_home / "models").mkdir()
    (_own_home / "models" / "tiny").symlink_to(TINY)
    with ServerProcess(_own_home, OMP_NUM_THREADS="1", HORIZON_FOLDERS=str(INPUTS), **ending(7)) as process:
        yield process


@pytest.mark.slow
def test_run_stopped_in_the_second_epoch_goes_on_with_the_rows_of_an_unbroken_one(server: ServerProcess) -> None:
    spec: dict[str, Any] = {
        "model": {"path": "models/tiny"},
        "data": {"path": str(INPUTS / "C09" / "ten.jsonl"), "sequence_length": 64, "packing": False, "seed": 11},
        "training": {"epochs": 3, "global_batch_size": 2, "micro_batch_size": 1, "learning_rate": 1e-3},
        "precision": {"compute": "fp32"},
        "offload": ON_CPU,
    }
    broken = server.post("/runs", {"spec": spec})["id"]
    stopped = server.wait_state(broken, "stopped", deadline_s=90)
    assert (stopped["step"], [one["step"] for one in stopped["checkpoints"]]) == (7, [7])
    server.end()
    server._environment |= {"HORIZON_END_AFTER": "0"}
    server.start()
    assert server.client.post(f"/runs/{broken}/resume").status_code == 202
    server.wait_state(broken, "finished", deadline_s=90)
    straight = server.post("/runs", {"spec": spec})["id"]
    assert server.wait_state(straight, "finished", deadline_s=90)["step"] == 15

    def series(run_id: str) -> Any:
        return server.get(f"/runs/{run_id}/metrics", keys="train/loss,train/learning_rate")["series"]

    assert series(broken)["train/loss"]["x"] == list(range(1, 16))
    assert series(broken) == series(straight)
    weights = [load_file(server.home / "runs" / run / "checkpoints/15/model.safetensors") for run in (broken, straight)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


# -- C12: small updates in bf16


@pytest.mark.slow
def test_small_updates_in_bf16_add_up_and_survive_a_resume(tmp_path: Path) -> None:
    """Norms start at 1.0, where bf16 steps by 1/128: a hundred updates of 1e-4 are below it, one by one."""
    norms: dict[str, torch.Tensor] = {}
    for dtype in ("fp32", "bf16"):
        spec = {
            "model": {"path": str(INPUTS / "C12" / dtype)},
            "data": {"path": str(INPUTS / "C12" / "one.jsonl"), "sequence_length": 64},
            "training": {
                "optimizer_steps": 100, "global_batch_size": 1, "learning_rate": 1e-4, "schedule": "constant",
                "warmup_steps": 0,
            },
            "precision": {"compute": dtype}, "offload": ON_CPU,
        }  # fmt: skip
        path = tmp_path / f"{dtype}.json"
        path.write_text(json.dumps(spec))
        if dtype == "bf16":
            stopped = horizon("run", path, **ending(50))
            assert (stopped["state"], stopped["optimizer_steps"]) == ("stopped", 50), stopped["reason"]
            body = horizon("run", "--resume", stopped["id"])
        else:
            body = horizon("run", path)
        assert (body["state"], body["optimizer_steps"]) == ("finished", 100), body["reason"]
        masters = load_file(runs_dir() / body["id"] / "checkpoints" / "100" / "model.safetensors")
        norms[dtype] = torch.cat([tensor for name, tensor in masters.items() if "norm" in name])
    assert norms["bf16"].dtype is torch.float32
    exported = norms["bf16"].bfloat16()
    assert float((exported == 1.0).float().mean()) < 0.5, "most norm weights have moved, in bf16 too"
    within = (exported.float() - norms["fp32"]).abs() <= 2.0**-7
    assert float(within.float().mean()) >= 0.95


# -- D01: the disk fills up


@pytest.mark.slow
def test_disk_that_fills_up_at_a_save_keeps_the_last_checkpoint_and_the_run_goes_on_later(
    _own_home: Path, tmp_path: Path
) -> None:
    """A limit on the size of files, set on the live worker between two saves, stands for a disk that fills up."""
    (_own_home / "models").mkdir()
    (_own_home / "models" / "tiny").symlink_to(TINY)
    (_own_home / "data").mkdir()
    (_own_home / "data" / "chat.jsonl").write_bytes((INPUTS / "_common" / "chat-12.jsonl").read_bytes())
    spec = {
        "model": {"path": "models/tiny"}, "data": {"path": "data/chat.jsonl", "sequence_length": 64},
        "training": {"optimizer_steps": 100_000, "global_batch_size": 2}, "offload": ON_CPU,
        "checkpoint": {"every": 5, "keep": 2},
    }  # fmt: skip
    with ServerProcess(
        _own_home, OMP_NUM_THREADS="1", HORIZON_FOLDERS=str(INPUTS), HORIZON_WORKER_MODULE="horizon_app.worker"
    ) as server:
        run_id = server.post("/runs", {"spec": spec})["id"]
        folder = server.home / "runs" / run_id
        server.wait_saved(run_id, deadline_s=90)
        worker = psutil.Process(json.loads((folder / "worker.json").read_text())["pid"])
        # Far above the journal, which must go on, and below the model's file.
        limit = (folder / "checkpoints").joinpath(newest(folder), "model.safetensors").stat().st_size - 1
        before = worker.rlimit(psutil.RLIMIT_FSIZE)
        worker.rlimit(psutil.RLIMIT_FSIZE, (limit, before[1]))
        run = server.wait_state(run_id, "paused", deadline_s=60)
        assert str(folder / "checkpoints") in run["reason"]
        assert "File too large; it needs about" in run["reason"] and "bytes" in run["reason"]
        assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == sorted(
            str(one["step"]) for one in run["checkpoints"]
        )
        assert all(not one["broken"] for one in run["checkpoints"])
        last = run["checkpoints"][-1]["step"]
        assert f"the checkpoint of step {last} is whole; free some space, then resume the run" in run["reason"]
        paused_at = run["step"]
        worker.rlimit(psutil.RLIMIT_FSIZE, before)
        server.post(f"/runs/{run_id}/resume")
        server.wait_step(run_id, paused_at + 10, deadline_s=60)
        server.post(f"/runs/{run_id}/stop")
        ended = server.wait_state(run_id, "stopped", "failed", deadline_s=60)
        assert ended["state"] == "stopped" and ended["checkpoints"][-1]["step"] == ended["step"], ended["reason"]
        assert paused_at in [event["step"] for event in server.all_events(run_id) if event["type"] == "checkpoint"]


def newest(folder: Path) -> str:
    return max((path.name for path in (folder / "checkpoints").iterdir() if path.name.isdigit()), key=int)


# -- D02: half-written folders; D03: rotation. Of the engine nothing matters here but that it can be saved and restored.


@pytest.fixture
def fake_home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def faked(home: Path, *arguments: str | Path) -> Any:
    """`horizon ... --json` around the fake engine."""
    done = run_horizon(*arguments, "--json", home=home)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


BREAKS = {
    "cut": "model.safetensors has 2082 bytes instead of 4164",
    "empty": "manifest.json can't be read",
    "nomarker": "is missing",
    "tmpdir": "",
}


@pytest.mark.parametrize("mode", list(BREAKS))
def test_damaged_newest_checkpoint_is_told_of_and_the_one_before_is_gone_on_with(
    mode: str, fake_home: Path, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path / "spec", training={"optimizer_steps": 8}, checkpoint={"every": 3})
    run_id = faked(fake_home, "run", spec)["id"]
    folder = fake_home / "runs" / run_id
    damaged = subprocess.run(
        [sys.executable, str(INPUTS / "D02" / "break_checkpoint.py"), str(folder), mode], check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert damaged.stdout.strip() == str(folder / "checkpoints" / "8")
    listed = faked(fake_home, "runs", "checkpoints", run_id)["checkpoints"]
    assert [(one["step"], bool(one["broken"])) for one in listed] == [(3, False), (6, False), (8, mode != "tmpdir")]
    assert BREAKS[mode] in listed[-1]["broken"]
    body = faked(fake_home, "run", "--resume", run_id, "--set", "training.optimizer_steps=9")
    assert (body["state"], body["optimizer_steps"]) == ("finished", 9), body["reason"]
    journal = (folder / "journal.jsonl").read_text()
    started_at = 8 if mode == "tmpdir" else 6
    assert f"resumed from the checkpoint of optimizer step {started_at} of 9" in journal
    assert ("8 is skipped" in journal) == (mode != "tmpdir")


@pytest.mark.parametrize("keep", [1, 2])
def test_rotation_keeps_newest_and_best_and_what_the_run_did_not_make(
    keep: int, fake_home: Path, tmp_path: Path
) -> None:
    """The eval loss rises from step to step, so the first checkpoint is the best; a folder of another run says 1000."""
    other = faked(fake_home, "run", write_spec(tmp_path / "other", training={"optimizer_steps": 1}))["id"]
    spec = write_spec(
        tmp_path / "spec", training={"optimizer_steps": 12}, checkpoint={"every": 1, "keep": keep},
        notes="the eval loss rises",
    )  # fmt: skip
    body = faked(fake_home, "run", spec, "--set", "training.optimizer_steps=2")
    folder = fake_home / "runs" / body["id"] / "checkpoints"
    (fake_home / "runs" / other / "checkpoints" / "1").rename(folder / "1000")
    (folder / "999").mkdir()
    assert (
        faked(fake_home, "run", "--resume", body["id"], "--set", "training.optimizer_steps=12")["state"] == "finished"
    )
    kept = [1, *range(13 - keep, 13)]
    assert sorted(int(path.name) for path in folder.iterdir()) == [*kept, 999, 1000]
    assert len(list((folder / "1000").iterdir())) > 2
    listed = faked(fake_home, "runs", "checkpoints", body["id"])["checkpoints"]
    assert [(one["step"], one["best"], one["eval_loss"]) for one in listed] == [
        (step, step == 1, float(step)) for step in kept
    ]


@pytest.mark.slow
def test_worker_killed_while_it_saves_leaves_nothing_that_is_taken_for_a_checkpoint(
    fake_home: Path, tmp_path: Path
) -> None:
    """The fake engine stops in the middle of writing a model."""
    spec = write_spec(
        tmp_path / "spec", training={"optimizer_steps": 9}, checkpoint={"every": 2}, notes="the save of step 6 hangs"
    )
    process = start_horizon("run", spec, home=fake_home)
    wait_until(lambda: any(fake_home.glob("runs/*/checkpoints/.6.partial/half")), "the save hangs")
    (worker,) = fake_home.glob("runs/*/worker.json")
    os.kill(json.loads(worker.read_text())["pid"], signal.SIGKILL)
    process.communicate(timeout=30)
    run_id = worker.parent.name
    assert [one["step"] for one in faked(fake_home, "runs", "checkpoints", run_id)["checkpoints"]] == [2, 4]
    body = faked(fake_home, "run", "--resume", run_id, "--set", "checkpoint.keep=5")
    assert (body["state"], body["optimizer_steps"]) == ("finished", 9)
    assert sorted(path.name for path in (worker.parent / "checkpoints").iterdir()) == ["2", "4", "6", "8", "9"]
