"""The engine on a CUDA card: the same promises as on the CPU. Skipped where there is no card."""

from pathlib import Path
from typing import Any

import pytest
import torch

from horizon_app.engine.streaming.backends.choose import make_backend
from tests.support.engines import running, train, weights_of
from tests.support.plain_loop import train_plainly
from tests.support.streaming_rig import CountingBackend
from tests.support.tiny_models import CONFIGS, RandomBatches, write_checkpoint

pytestmark = pytest.mark.gpu

SOURCE = RandomBatches()
STEPS, ARENA = 8, 5


def sections(**changes: dict[str, Any]) -> dict[str, Any]:
    offload = {"device": "cuda", "param_block_size": "16KiB", "max_gpu_blocks": ARENA, **changes.get("offload", {})}
    return {**changes, "offload": offload, "training": {"micro_batch_size": 2, **changes.get("training", {})}}


def run(folder: Path, **changes: dict[str, Any]) -> tuple[list[float], dict[str, torch.Tensor]]:
    backend = CountingBackend(make_backend(torch.device("cuda", 0)))
    with running(folder, backend=backend, **sections(**changes)) as engine:
        losses = [step["train/loss"] for step in train(engine, SOURCE, STEPS)]
        assert engine.peaks().device_blocks <= ARENA
        return losses, weights_of(engine)


@pytest.fixture(autouse=True)
def full_precision_products() -> None:
    """TF32 would round the inputs of products: parity is promised for fp32."""
    torch.backends.cuda.matmul.fp32_precision = "ieee"


@pytest.mark.parametrize("recompute", ["always", "never"])
@pytest.mark.parametrize("family", list(CONFIGS))
def test_engine_on_card_fp32_equals_the_plain_loop(family: str, recompute: str, tmp_path: Path) -> None:
    folder = write_checkpoint(family, tmp_path)
    plain = train_plainly(folder, SOURCE, steps=STEPS, micro_batch=2, peak=1e-3, warmup=3, weight_decay=0.1)
    losses, _ = run(folder, compute={"recompute": recompute})
    assert losses == pytest.approx(plain.losses, rel=1e-4)


def test_engine_on_card_bf16_stays_within_two_percent(tmp_path: Path) -> None:
    folder = write_checkpoint("llama", tmp_path)
    plain = train_plainly(
        folder, SOURCE, steps=STEPS, micro_batch=2, peak=1e-3, warmup=3, weight_decay=0.1, dtype=torch.bfloat16
    )
    losses, _ = run(folder, precision={"compute": "bf16"})
    assert losses == pytest.approx(plain.losses, rel=0.02)


@pytest.mark.parametrize("window", [0, 1, 8])
def test_engine_on_card_no_window_changes_a_result(window: int, tmp_path: Path) -> None:
    folder = write_checkpoint("llama", tmp_path)
    reference = run(folder)
    losses, weights = run(folder, offload={"prefetch_window": window, "policy": "lru"})
    assert losses == pytest.approx(reference[0], rel=1e-6)
    for name, weight in weights.items():
        torch.testing.assert_close(weight, reference[1][name], rtol=1e-5, atol=1e-6)


def test_engine_on_card_device_memory_holds_no_more_than_the_arena_of_the_weights(tmp_path: Path) -> None:
    folder = write_checkpoint("llama", tmp_path)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with running(folder, backend=make_backend(torch.device("cuda", 0)), **sections()) as engine:
        resident = sum(p.numel() * p.element_size() for p in engine._m.step._p.model.resident.values())
        held = torch.cuda.memory_allocated() - before
        buffers = 1 << 20  # rotary frequencies and what the allocator rounds up to
        assert held <= engine.sizes.arena_bytes + resident + buffers
