"""Trains a model in a process of its own and prints what it saw, as JSON: for tests that limit the process's memory.

python -m tests.integration.bounded_loop MODEL_DIR DISK_DIR HOST_BYTES STEPS [LIMIT_BYTES]
"""

import json
import resource
import sys
from pathlib import Path


def main(model_dir: str, disk_dir: str, host_bytes: str, steps: str, limit_bytes: str = "0") -> None:
    """Train; HOST_BYTES 0 leaves the host tier without a limit, LIMIT_BYTES is of anonymous memory."""
    if int(limit_bytes):
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit_bytes), int(limit_bytes)))
    import torch

    from horizon_app.contracts.spec_parse import parse_spec
    from horizon_app.engine.telemetry.sink import NullSink
    from horizon_app.engine.training.config import EngineConfig
    from horizon_app.engine.training.engine import Engine
    from tests.support.engines import spec_document
    from tests.support.tiny_models import RandomBatches

    torch.set_num_threads(1)
    offload: dict[str, object] = {"param_block_size": "1MiB", "max_gpu_blocks": 8}
    if int(host_bytes):
        offload |= {"host_memory": int(host_bytes), "disk": "auto"}
    document = spec_document(
        model={"path": "unused", "init": "random"}, offload=offload, precision={"compute": "bf16"},
        training={"micro_batch_size": 2}, compute={"recompute": "always"},
    )  # fmt: skip
    engine = Engine(EngineConfig.from_spec(parse_spec(document), Path(model_dir), Path(disk_dir)), NullSink())
    losses: list[float] = []
    engine.train(RandomBatches(), int(steps), lambda: False, lambda _: losses.append(engine.last_metrics["train/loss"]))
    facts = engine.plan_facts
    engine.close()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    sys.stdout.write(json.dumps({"losses": losses, "plan": facts, "data_kib": status["VmData"]}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
