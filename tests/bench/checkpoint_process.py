"""Writes a checkpoint of an engine in this process, or reads one, or trains beside the writing; prints what that took.

python -m tests.bench.checkpoint_process save MODEL_DIR CHECKPOINT_DIR
python -m tests.bench.checkpoint_process resume CHECKPOINT_DIR
python -m tests.bench.checkpoint_process beside FOLDER ROUNDS
"""

import json
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.engine.model.new_folder import sync_tree
from horizon_app.engine.telemetry.sink import NullSink
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.engine import Engine
from tests.bench.engine_loop import SameShape, build_engine
from tests.bench.work import Work

STEPS, EVERY = 6, 2


def save(model_dir: str, checkpoint_dir: str) -> dict[str, float]:
    """Write all of it, and bring it to the disk; the growth of the process at its peak."""
    engine, folder = _engine(model_dir), Path(checkpoint_dir)
    folder.mkdir()
    before = _watch_peak()
    begin = time.perf_counter()
    written = engine.snapshot().write(folder)
    seconds = time.perf_counter() - begin
    sync_tree(folder)
    synced = time.perf_counter() - begin
    grown = _resident("VmHWM") - before
    engine.close()
    num_bytes = sum(file.bytes for file in written.files.values())
    return {"bytes": num_bytes, "seconds": seconds, "synced_seconds": synced, "grown_bytes": grown}


def resume(checkpoint_dir: str) -> dict[str, float]:
    """Load the model and the state; the growth of the process at its peak, beside what it then holds."""
    before = _watch_peak()
    begin = time.perf_counter()
    engine = _engine(checkpoint_dir)
    engine.restore(Path(checkpoint_dir))
    seconds = time.perf_counter() - begin
    grown = _resident("VmHWM") - before
    held = 12 * sum(parameter.numel for parameter in engine._partition.parameters)
    engine.close()
    return {"held_bytes": held, "grown_bytes": grown, "seconds": seconds}


def beside(folder: str, rounds: str) -> dict[str, float]:
    """Seconds of the same steps without saving, with a save that they wait for, and with one beside them."""
    work, place = Work(model="50M"), Path(folder)
    took: dict[str, list[float]] = {"unsaved": [], "waiting": [], "beside": []}
    engine = build_engine(work, NullSink(), {}, place)
    source = SameShape(work)
    engine.train(source, 1, lambda: False, lambda _step: None)
    ways: dict[str, Callable[[Engine, Path], threading.Thread | None]] = {
        "unsaved": lambda _engine, _place: None, "waiting": _save_now, "beside": _save_beside,
    }  # fmt: skip
    for _ in range(int(rounds)):
        for name, way in ways.items():
            took[name].append(_train(engine, source, place / "checkpoint", way))
    engine.close()
    return {name: statistics.median(seconds) for name, seconds in took.items()}


def _train(
    engine: Engine, source: SameShape, place: Path, way: Callable[[Engine, Path], threading.Thread | None]
) -> float:
    threads: list[threading.Thread] = []

    def on_step(step: int) -> None:
        if step % EVERY:
            return
        for thread in threads:
            thread.join()  # one save at a time, as in a worker
        thread = way(engine, place)
        threads[:] = [] if thread is None else [thread]

    begin = time.perf_counter()
    engine.train(source, engine.step_count + STEPS, lambda: False, on_step)
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def _save_now(engine: Engine, place: Path) -> None:
    _write(engine.snapshot(), place)


def _save_beside(engine: Engine, place: Path) -> threading.Thread:
    thread = threading.Thread(target=_write, args=(engine.snapshot(), place))
    thread.start()
    return thread


def _write(snapshot: Any, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    snapshot.write(place)
    sync_tree(place)


def _engine(model_dir: str) -> Engine:
    spec = {
        "model": {"path": "unused"}, "data": {"path": "unused"}, "precision": {"compute": "fp32"},
        "offload": {"device": "cpu", "param_block_size": "4MiB", "max_gpu_blocks": 4, "disk": "off"},
    }  # fmt: skip
    folder = Path(model_dir)
    return Engine(EngineConfig.from_spec(parse_spec(spec), folder, folder), NullSink())


def _watch_peak() -> int:
    """The resident bytes now; the peak counts from here on."""
    torch.zeros(1).add_(1)
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _resident(name: str) -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[name].split()[0]) * 1024


if __name__ == "__main__":
    _verb, *_arguments = sys.argv[1:]
    _answer = {"save": save, "resume": resume, "beside": beside}[_verb](*_arguments)
    sys.stdout.write(json.dumps(_answer) + "\n")
