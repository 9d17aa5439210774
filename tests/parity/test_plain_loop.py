"""Engine against the plain in-memory loop: fp32, block sizes, windows, arenas, accumulations; copies in disorder."""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from horizon_app.contracts.run_spec import Policy
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.engine.telemetry.sink import NullSink
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.engine import Engine
from tests.support.chaos import ChaosBackend, poison
from tests.support.plain_loop import PlainResult, train_plainly
from tests.support.tiny_models import CONFIGS, TOKENS, RandomBatches, write_checkpoint

STEPS = 20
PEAK, WARMUP, DECAY = 1e-3, 3, 0.1
SOURCE = RandomBatches()
BLOCKS = ("64KiB", "1MiB", "16MiB")
WINDOWS = (0, 1, 3, 8)
ARENAS = (2, 5, 1000)  # the last one holds everything
SHARED = (3, "auto")  # products read the host's memory
MICRO_BATCHES = (4, 1)  # accumulation 1 and 4

Losses = list[float]
Weights = dict[str, torch.Tensor]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Products this small only wait for each other on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One tiny checkpoint a family."""
    return {family: write_checkpoint(family, tmp_path_factory.mktemp(family)) for family in CONFIGS}


@cache
def _plain(folder: Path, micro_batch: int) -> PlainResult:
    return train_plainly(
        folder, SOURCE, steps=STEPS, micro_batch=micro_batch, peak=PEAK, warmup=WARMUP, weight_decay=DECAY
    )


def _engine(folder: Path, micro_batch: int, offload: dict[str, object], recompute: str, seed: int) -> Engine:
    spec = parse_spec(
        {
            "model": {"path": "unused"},
            "data": {"path": "unused", "sequence_length": TOKENS},
            "training": {
                "global_batch_size": SOURCE.sequences, "micro_batch_size": micro_batch, "learning_rate": PEAK,
                "warmup_steps": WARMUP, "weight_decay": DECAY, "optimizer_steps": STEPS,
            },
            "precision": {"compute": "fp32"},
            "offload": {"device": "cpu", **offload},
            "compute": {"recompute": recompute},
        }
    )  # fmt: skip
    config = EngineConfig.from_spec(spec, folder, folder)
    return Engine(config, NullSink(), backend=ChaosBackend(seed), on_slot_release=poison)


def _train(engine: Engine, steps: int = STEPS) -> tuple[Losses, Weights]:
    losses: Losses = []
    try:
        engine.train(SOURCE, steps, lambda: False, lambda _: losses.append(engine.last_metrics["train/loss"]))
        return losses, {name: engine.parameter(name).clone() for name in engine.parameter_names}
    finally:
        engine.close()


def assert_equal_to_plain(losses: Losses, weights: Weights, plain: PlainResult) -> None:
    """Losses and each weight tensor within 1e-5, relative."""
    assert losses == pytest.approx(plain.losses, rel=1e-5)
    named = plain.weights
    for name, weight in weights.items():
        expected = named[name] if name in named else named[_tied_name(named)]
        if name.endswith("c_attn.bias"):
            weight, expected = _without_key_bias(name, weight, expected)
        error = float((weight - expected).norm() / expected.norm())
        assert error < 1e-5, f"{name}: {error}"


def _without_key_bias(name: str, weight: torch.Tensor, expected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """GPT-2's key bias shifts all scores of a query alike, so its exact gradient is zero.

    What either loop sees of it is rounding noise, which AdamW divides by its own size: only its bound can be compared.
    """
    width = weight.numel() // 3
    key = slice(width, 2 * width)
    assert float((weight[key] - expected[key]).abs().max()) < 1e-4, name
    return torch.cat([weight[:width], weight[2 * width :]]), torch.cat([expected[:width], expected[2 * width :]])


def _tied_name(weights: Weights) -> str:
    return next(name for name in weights if name.endswith(("embed_tokens.weight", "wte.weight")))


@pytest.mark.parametrize("micro_batch", MICRO_BATCHES, ids=lambda m: f"accumulate{SOURCE.sequences // m}")
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("family", list(CONFIGS))
def test_engine_every_window_and_arena_equals_plain_loop(
    family: str, block: str, micro_batch: int, checkpoints: dict[str, Path]
) -> None:
    plain = _plain(checkpoints[family], micro_batch)
    first: tuple[Losses, Weights] | None = None
    pairs = [*itertools.product(WINDOWS, ARENAS)]
    if micro_batch == 1:
        pairs = pairs[::2]  # four times the work a step: each window and each arena, but not each pair
    for seed, (window, arena) in enumerate([*pairs, SHARED]):
        policy = list(Policy)[seed % len(Policy)].value
        recompute = ("always", "never")[seed // 3 % 2]
        offload: dict[str, object] = {
            "param_block_size": block,
            "prefetch_window": window,
            "max_gpu_blocks": arena,
            "policy": policy,
        }
        losses, weights = _train(_engine(checkpoints[family], micro_batch, offload, recompute, seed))
        assert_equal_to_plain(losses, weights, plain)
        if first is None:
            first = (losses, weights)
        assert losses == first[0], f"window {window}, arena {arena}, {policy}, recompute {recompute}"
        assert all(torch.equal(weights[name], first[1][name]) for name in weights)
