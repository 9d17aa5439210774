"""Every knob beside every other, pair by pair: against the plain loop, and to the last bit against the plainest engine.

What may change a bit (block size, micro-batch, precision, moments, moving average, order) makes one plain engine each;
all else (window, policy, arena, tiers, recomputation, overlap, where layer inputs wait) must not change any.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.errors import TierExhausted
from tests.support.engines import running, train, weights_of
from tests.support.pairwise import Row, pairwise
from tests.support.plain_loop import PlainResult, train_plainly
from tests.support.tiny_models import CONFIGS, RandomBatches, write_checkpoint

PEAK, WARMUP, DECAY = 1e-3, 3, 0.1
SOURCE = RandomBatches()
STEPS = 10  # fifty steps in 16 bits beside the plain loop: see test_promises
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
INT8_TOLERANCE = 0.03  # of the loss, after the same number of steps

DIMENSIONS: dict[str, list[Any]] = {
    "family": list(CONFIGS),
    "block": ["16KiB", "64KiB", "16MiB"],
    "window": [0, 1, 3, 8, "auto"],
    "policy": [policy.value for policy in Policy],
    "arena": [2, 5, "auto"],
    "host": ["whole, disk off", "whole, disk on", "half", "least"],
    "precision": list(DTYPES),
    "micro_batch": [4, 2, 1],
    "accumulation": ["fixed", "adaptive"],
    "recompute": ["always", "never", "auto", "all but the last layer"],
    "order": ["layer_major", "micro_batch_major"],
    "update_threads": [0, 1],
    "moments": ["fp32", "int8"],
    "inputs": ["device", "host", "disk"],
    "average": [0.0, 0.9],
}
ROWS = pairwise(DIMENSIONS)


@dataclass(frozen=True)
class Numbers:
    """All that may change a bit."""

    family: str
    block: str
    precision: str
    micro_batch: int
    moments: str
    average: float
    order: str  # a tied embedding's rows are added between the micro-batches of the head, or after all of them


@dataclass(frozen=True)
class Trained:
    """What an engine has made of a checkpoint."""

    losses: list[float]
    weights: dict[str, torch.Tensor]


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One tiny checkpoint a family."""
    return {family: write_checkpoint(family, tmp_path_factory.mktemp(family)) for family in CONFIGS}


def sections(numbers: Numbers, **offload: Any) -> dict[str, Any]:
    return {
        "training": {
            "micro_batch_size": numbers.micro_batch, "learning_rate": PEAK, "warmup_steps": WARMUP,
            "weight_decay": DECAY, "gradient_ema": numbers.average,
        },
        "precision": {"compute": numbers.precision, "optimizer_state": numbers.moments},
        "offload": {"param_block_size": numbers.block, **offload},
        "compute": {"schedule": numbers.order},
    }  # fmt: skip


@cache
def plainest(folder: Path, numbers: Numbers) -> tuple[Trained, int]:
    """An engine without any of what must not matter; and the host memory that it takes."""
    with running(folder, **sections(numbers)) as engine:
        losses = [step["train/loss"] for step in train(engine, SOURCE, STEPS)]
        return Trained(losses, weights_of(engine)), engine.plan_facts["host_bytes"]


@cache
def plain_loop(folder: Path, precision: str, micro_batch: int, average: float) -> PlainResult:
    return train_plainly(
        folder, SOURCE, steps=STEPS, micro_batch=micro_batch, peak=PEAK, warmup=WARMUP, weight_decay=DECAY,
        dtype=DTYPES[precision], gradient_ema=average,
    )  # fmt: skip


def set_host(words: dict[str, Any], overrides: dict[str, Any], folder: Path, numbers: Numbers, host: str) -> None:
    """Give the spec's words a host tier and a disk of that kind."""
    offload = words["offload"]
    if host.startswith("whole"):
        offload["disk"] = host.removeprefix("whole, disk ")
        return
    offload |= {"disk": "auto" if host == "half" else "on", "host_memory": "1KiB"}
    with pytest.raises(TierExhausted) as refused, running(folder, overrides=overrides, **words):
        pass
    least = refused.value.needed_bytes
    offload["host_memory"] = max(least, plainest(folder, numbers)[1] // 2) if host == "half" else least


def row_id(row: Row) -> str:
    return "-".join(str(value).replace(", ", "_").replace(" ", "_") for value in row.values())


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_engine_any_pair_of_knobs_equals_the_plain_loop(row: Row, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    folder = checkpoints[row["family"]]
    numbers = Numbers(**{name: row[name] for name in Numbers.__dataclass_fields__})
    reference = plainest(folder, numbers)[0]
    words = sections(
        numbers, prefetch_window=row["window"], policy=row["policy"], max_gpu_blocks=row["arena"]
    )  # fmt: skip
    keeps_one = row["recompute"] == "all but the last layer"
    words["compute"] = {"recompute": "auto" if keeps_one else row["recompute"], "schedule": numbers.order}
    words["accumulation"] = {"policy": row["accumulation"]}
    overrides: dict[str, Any] = {
        "update_threads": row["update_threads"], "host_inputs": row["inputs"] != "device",
        "input_limit_bytes": 0 if row["inputs"] == "disk" else None, "kept_layers": 1 if keeps_one else None,
    }  # fmt: skip
    set_host(words, overrides, folder, numbers, row["host"])
    with running(folder, seed=ROWS.index(row), disk_dir=tmp_path, overrides=overrides, **words) as engine:
        losses = [step["train/loss"] for step in train(engine, SOURCE, STEPS)]
        weights = weights_of(engine)
        limit = words["offload"].get("host_memory")
        assert limit is None or engine.peaks().host_bytes <= limit
        assert row["arena"] == "auto" or engine.peaks().device_blocks <= row["arena"]
    assert losses == reference.losses
    assert all(torch.equal(weights[name], reference.weights[name]) for name in weights)
    assert_close_to_plain(numbers, Trained(losses, weights), folder)


def assert_close_to_plain(numbers: Numbers, trained: Trained, folder: Path) -> None:
    plain = plain_loop(folder, numbers.precision, numbers.micro_batch, numbers.average)
    if numbers.precision != "fp32" or numbers.moments == "int8":
        tolerance = INT8_TOLERANCE if numbers.moments == "int8" else 0.02
        assert trained.losses == pytest.approx(plain.losses, rel=tolerance)
        return
    assert trained.losses == pytest.approx(plain.losses, rel=1e-5)
    for name, weight in trained.weights.items():
        if name in plain.weights and not name.endswith("c_attn.bias"):  # see test_plain_loop on key biases
            expected = plain.weights[name]
            assert float((weight - expected).norm() / expected.norm()) < 1e-5, name


def test_pairwise_rows_hold_every_pair() -> None:
    for a in DIMENSIONS:
        for b in DIMENSIONS:
            if a < b:
                there = {(str(row[a]), str(row[b])) for row in ROWS}
                assert len(there) == len(DIMENSIONS[a]) * len(DIMENSIONS[b]), (a, b)
