"""DeepSpeed's ZeRO stage 3 in one process, with parameters and optimizer in RAM or on NVMe; bf16 with fp32 masters.

Runs in an interpreter of its own (`tests.bench.peer_install`), on DeepSpeed's CPU accelerator. Its defaults are kept
where they run; what is set otherwise says why.
"""

import importlib
import os
from typing import Any

from tests.bench.loop_process import Loop, Mark
from tests.bench.networks import build_network, loss_of
from tests.bench.work import BETAS, LEARNING_RATE, MAX_NORM, Work

_NVME_PARAMETERS = 80_000_000
"""Elements of its parameter buffers on NVMe: they must hold the largest parameter."""
_NVME_SUB_GROUP = 20_000_000
"""Elements that its optimizer swaps at once: several of them, so that its pipeline has something to overlap."""

_NVME_BUFFERS = 12
"""Its pipeline holds three sub-groups of four tensors each: with its default of 4 buffers it fails an assertion."""


def build(work: Work, nvme_folder: str | None) -> Loop:
    """ZeRO-3 with everything off the device: in RAM, or in `nvme_folder`."""
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        os.environ[name] = value
    os.environ.setdefault("MASTER_PORT", "29571")
    deepspeed: Any = importlib.import_module("deepspeed")  # not there where this code is checked
    deepspeed.init_distributed(dist_backend="gloo")
    network = build_network(work)
    engine, *_ = deepspeed.initialize(
        model=network, model_parameters=network.parameters(), config=_config(work, nvme_folder)
    )

    def run(steps: int, mark: Mark) -> None:
        for step in range(1, steps + 1):
            engine.backward(loss_of(engine, work, step))
            engine.step()
            mark()

    return Loop(run=run)


def _config(work: Work, nvme_folder: str | None) -> dict[str, Any]:
    if nvme_folder is None:
        zero: dict[str, Any] = {"offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}
    else:
        where = {"device": "nvme", "nvme_path": nvme_folder}
        zero = {
            "offload_param": {**where, "buffer_count": 5, "buffer_size": _NVME_PARAMETERS},
            "offload_optimizer": {
                **where,
                "buffer_count": _NVME_BUFFERS,
                "pipeline_read": True,
                "pipeline_write": True,
            },
            "sub_group_size": _NVME_SUB_GROUP,
        }
    adam = {"lr": LEARNING_RATE, "betas": list(BETAS), "weight_decay": 0.0}
    return {
        "train_micro_batch_size_per_gpu": work.sequences,
        "train_batch_size": work.sequences,
        "gradient_clipping": MAX_NORM,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, **zero},
        "aio": {"block_size": 1 << 20, "queue_depth": 16, "single_submit": False, "overlap_events": True},
        "optimizer": {"type": "AdamW", "params": adam},
        "steps_per_print": 1 << 30,
    }
