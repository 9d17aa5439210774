"""Kills a real worker at random instants, again and again, and looks at what each kill has left."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open

from horizon_app.contracts.checkpoints import changed_file, find_checkpoints
from horizon_app.contracts.events import MetricsRecorded
from tests.support.run_folders import make_run_folder, read_journal
from tests.support.small_model import write_rhyme, write_small_model
from tests.support.worker_nursery import WorkerNursery

STEPS, EVERY = 40, 3
IGNORED = ("partial", "removed")
"""Endings of the names under which nothing is a checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kills:
    """What came of them."""

    kills: int
    runs: int
    while_saving: int
    """Kills that left a folder half written or half removed."""
    resumed_at: list[int]
    """Steps of the checkpoints that were gone on from; 0: none was there yet."""


def new_run(folder: Path, name: str) -> Path:
    """A run of a small model over a text, whose epochs end in the middle of a step's sequences."""
    if not (folder / "model").exists():
        write_small_model(folder / "model")
        write_rhyme(folder / "corpus.txt")
    sections: dict[str, Any] = {
        "training": {"optimizer_steps": STEPS, "global_batch_size": 4, "learning_rate": 3e-3, "warmup_steps": 5},
        "offload": {"param_block_size": "16KiB", "max_gpu_blocks": 12, "device": "cpu"},
        "precision": {"compute": "fp32"},
        "checkpoint": {"every": EVERY, "keep": 2},
    }
    run_dir = make_run_folder(folder / name, **sections)
    order = json.loads((run_dir / "run.json").read_text())
    order["spec"]["model"]["init"] = "random"
    order["spec"]["data"]["sequence_length"] = 32
    (run_dir / "run.json").write_text(json.dumps(order))
    return run_dir


def losses(run_dir: Path) -> list[tuple[int, float | None]]:
    """The loss of each step, as it was measured last."""
    events = [event for event in read_journal(run_dir) if isinstance(event, MetricsRecorded)]
    return sorted({event.step: event.values["train/loss"] for event in events}.items())


def kill_at_random(folder: Path, *, kills: int, seed: int, say: Callable[[str], None] = lambda _line: None) -> Kills:
    """Kill workers `kills` times, each after a random time of its life; every run must end like an unbroken one."""
    chance = random.Random(seed)
    done, runs, while_saving, resumed_at = 0, 0, 0, list[int]()
    with WorkerNursery() as nursery:
        unbroken = new_run(folder, "unbroken")
        life_s = _live(nursery, unbroken)
        expected = losses(unbroken)
        assert [step for step, _ in expected] == list(range(1, STEPS + 1))
        while done < kills:
            run_dir = new_run(folder, f"run-{runs}")
            runs += 1
            while done < kills and not _ends_before(nursery, run_dir, chance.uniform(0.0, life_s)):
                done += 1
                left = check_what_is_left(run_dir)
                while_saving += bool(left)
                say(f"kill {done}: {left or 'nothing half done'}")
            _live(nursery, run_dir)
            resumed_at += _resumed_at(run_dir)
            assert losses(run_dir) == expected, f"{run_dir.name} took another course"
            check_what_is_left(run_dir)
    return Kills(kills=done, runs=runs, while_saving=while_saving, resumed_at=resumed_at)


def check_what_is_left(run_dir: Path) -> list[str]:
    """Every checkpoint folder is whole or ignored by its name; gives the names of those ignored."""
    folder = run_dir / "checkpoints"
    if not folder.exists():
        return []
    whole = find_checkpoints(run_dir)
    for one in whole:
        assert one.manifest is not None and not one.broken, f"{one.folder}: {one.broken}"
        assert not changed_file(one.folder, one.manifest)
        with safe_open(one.folder / "model.safetensors", framework="pt") as file:
            assert list(file.keys())
    others = sorted({path.name for path in folder.iterdir()} - {str(one.step) for one in whole})
    assert all(name.startswith(".") and name.endswith(IGNORED) for name in others), others
    return others


def _live(nursery: WorkerNursery, run_dir: Path) -> float:
    """Let a worker live to its end; gives its seconds."""
    begin = time.monotonic()
    code = nursery.wait(nursery.start(run_dir))
    assert code == 0, (run_dir / "worker.log").read_text()
    return time.monotonic() - begin


def _ends_before(nursery: WorkerNursery, run_dir: Path, seconds: float) -> bool:
    """Kill a worker after so many seconds; whether it had ended by itself before."""
    pid = nursery.start(run_dir)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)  # not waited for yet, so the process id is still its own
    return nursery.wait(pid) == 0


def _resumed_at(run_dir: Path) -> list[int]:
    events: list[Any] = list(read_journal(run_dir))
    return [event.data["step"] for event in events if getattr(event, "kind", "") == "resumed"]
