"""The engine as a worker runs it, on a spec, without the server: everything fits, a small arena, state on disk."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.data.batches import IGNORE, Batch
from horizon_app.engine.telemetry.sink import NullSink, TelemetrySink
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.engine import Engine
from tests.bench.loop_process import Loop, Mark
from tests.bench.networks import llama_config, token_ids
from tests.bench.work import LEARNING_RATE, Work, num_parameters

BLOCK_BYTES, LARGE_BLOCK_BYTES = 4 << 20, 16 << 20
"""Where memory is tight: the large one, which is the default, where an arena then still is several blocks."""
SEVERAL = 8
"""Blocks that an arena of large ones needs to have room for."""
COMPUTE_BYTES = 2
"""Of an element in bf16."""
HOST_BYTES_WITH_DISK = COMPUTE_BYTES + 4
"""Of a parameter, what stays in RAM while masters and moments are on disk: its weight and its gradient."""
HOST_ROOM_WITH_DISK = 256 << 20
"""What the planes that come and go may hold in RAM at a time."""


class SameShape:
    """Random tokens; every step has another batch of the same shape."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Without end, every token trained."""
        step = first_step
        while True:
            ids = token_ids(self._work, step)
            labels = ids.copy()
            labels[:, 0] = IGNORE
            positions = np.tile(np.arange(self._work.tokens), (self._work.sequences, 1))
            yield Batch(input_ids=ids, labels=labels, position_ids=positions, num_samples=self._work.sequences)
            step += 1


def build_engine(work: Work, sink: TelemetrySink, offload: dict[str, Any], folder: Path) -> Engine:
    """An engine with random weights in bf16 on the CPU; its model's config and its disk tier lie in `folder`."""
    llama_config(work.model).save_pretrained(folder)
    spec = parse_spec(
        {
            "model": {"path": "unused", "init": "random"},
            "data": {"path": "unused", "sequence_length": work.tokens},
            "training": {
                "global_batch_size": work.sequences,
                "micro_batch_size": work.sequences,
                "learning_rate": LEARNING_RATE,
            },
            "precision": {"compute": "bf16"},
            "accumulation": {"policy": "fixed"},
            "offload": {"device": "cpu", **offload},
        }
    )
    return Engine(EngineConfig.from_spec(spec, folder, folder), sink)


def everything_fits(work: Work) -> Loop:
    """The spec's defaults on a machine with room for everything."""
    return _loop(work, {})


def small_arena(work: Work, share: float) -> Loop:
    """An arena with room for `share` of the model's blocks, and everything else in RAM."""
    arena = num_parameters(work.model) * COMPUTE_BYTES * share
    block = LARGE_BLOCK_BYTES if arena >= SEVERAL * LARGE_BLOCK_BYTES else BLOCK_BYTES
    return _loop(work, {"param_block_size": block, "max_gpu_blocks": max(2, round(arena / block))})


def state_on_disk(work: Work, disk_folder: str) -> Loop:
    """A limit of the host tier that leaves room for weights and gradients: masters and moments live on disk."""
    host = num_parameters(work.model) * HOST_BYTES_WITH_DISK + HOST_ROOM_WITH_DISK
    offload = {"param_block_size": BLOCK_BYTES, "host_memory": host, "disk": "on", "disk_path": disk_folder}
    return _loop(work, offload, disk_folder)


def what_is_free(work: Work, disk_folder: str) -> Loop:
    """Tiers as large as the memory that is free now, the rest on disk: for a machine under a ballast."""
    return _loop(work, {"disk": "auto", "disk_path": disk_folder}, disk_folder)


def _loop(work: Work, offload: dict[str, Any], disk_folder: str | None = None) -> Loop:
    folder = tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=disk_folder)
    engine = build_engine(work, NullSink(), offload, Path(folder.name))
    moved: list[float] = []

    def run(steps: int, mark: Mark) -> None:
        def on_step(_step: int) -> None:
            told = engine.last_metrics
            rates = told.get("transfer/disk_read", 0.0) + told.get("transfer/disk_write", 0.0)
            moved.append(rates * told["time/step"])
            mark()

        engine.train(SameShape(work), steps, lambda: False, on_step)

    def facts() -> dict[str, Any]:
        return {
            "plan": {key: value for key, value in engine.plan_facts.items() if isinstance(value, int | float | str)},
            "metrics": dict(engine.last_metrics),
            "disk_bytes_a_step": sum(moved[1:]) / max(1, len(moved) - 1),
        }

    def close() -> None:
        engine.close()
        folder.cleanup()

    return Loop(run=run, facts=facts, close=close)
