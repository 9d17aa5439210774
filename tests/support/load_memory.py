"""Loads a checkpoint into an engine, in a process of its own, and prints what that took beside what it is worth.

python -m tests.support.load_memory MODEL_DIR COMPUTE
"""

import json
import sys
from pathlib import Path
from typing import Any

ALLOWED_SHARE, ALLOWED_BYTES = 1.05, 256 << 20
"""The most that loading may take: this share of the loaded model's bytes, and this many bytes."""


def write_random_llama(folder: Path, *, width: int, layers: int, rows: int, dtype: str) -> int:
    """A checkpoint in shards of 256 MiB, written tensor by tensor; answers the bytes of its weights."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    from horizon_app.engine.model.tensor_writer import TensorEntry, write_tensors

    config = LlamaConfig(
        hidden_size=width, intermediate_size=width * 3, num_hidden_layers=layers, num_attention_heads=8,
        num_key_value_heads=8, vocab_size=rows, tie_word_embeddings=False,
    )  # fmt: skip
    config.save_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    stored: torch.dtype = getattr(torch, dtype)

    def entry(name: str, shape: tuple[int, ...]) -> TensorEntry:
        return TensorEntry(name=name, dtype=stored, shape=shape, read=lambda: torch.full(shape, 0.01, dtype=stored))

    entries = [entry(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
    return sum(file.num_bytes for file in write_tensors(folder, entries, shard_bytes=256 << 20))


def allowed_bytes(loaded: int) -> int:
    """The most that loading a model of `loaded` bytes in the host tier may take."""
    return int(loaded * ALLOWED_SHARE) + ALLOWED_BYTES


def main(model_dir: str, compute: str) -> None:
    """Load; tell the bytes of masters and weights in the host tier, and by how much the process grew at most."""
    from horizon_app.contracts.spec_parse import parse_spec
    from horizon_app.engine.memory.planes import PlaneName
    from horizon_app.engine.telemetry.sink import NullSink
    from horizon_app.engine.training.config import EngineConfig
    from horizon_app.engine.training.engine import Engine
    from tests.support.engines import spec_document

    document = spec_document(precision={"compute": compute}, offload={"param_block_size": "4MiB", "max_gpu_blocks": 4})
    config = EngineConfig.from_spec(parse_spec(document), Path(model_dir), Path(model_dir))
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from now on
    engine = Engine(config, NullSink())
    grown = _resident("VmHWM") - before
    planes: dict[PlaneName, Any] = engine._pool.planes
    held = {id(plane): plane for plane in (planes[PlaneName.MASTER], planes[PlaneName.WEIGHT])}
    loaded = sum(plane.num_bytes for plane in held.values())
    engine.close()
    sys.stdout.write(json.dumps({"loaded_bytes": loaded, "grown_bytes": grown}) + "\n")


def _resident(name: str) -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[name].split()[0]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
