import math
from pathlib import Path

import psutil
import pytest
import torch

from horizon_app.contracts.run_spec import (
    AccumulationPolicy,
    Compute,
    Disk,
    OptimizerState,
    Policy,
    Recompute,
    ScheduleOrder,
)
from horizon_app.engine.errors import DeviceUnavailable
from horizon_app.engine.hardware import probe
from horizon_app.engine.training import config as config_module
from horizon_app.engine.training.config import AUTO_WINDOW_START, resolve_block_bytes, resolve_device, resolve_dtype
from tests.support.engines import engine_config

MIB = 1 << 20
CPU = torch.device("cpu")
FOLDER = Path("model")


def test_resolve_device_auto_is_the_card_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("auto") == torch.device("cuda", 0)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    assert resolve_device("cpu") == CPU


@pytest.mark.parametrize(("word", "cards"), [("cuda", 0), ("cuda:2", 2)])
def test_resolve_device_that_is_not_there_is_refused_with_the_number_there_is(
    word: str, cards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cards > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
    with pytest.raises(DeviceUnavailable, match=f"{word}, but {cards} CUDA devices"):
        resolve_device(word)


@pytest.mark.parametrize("fast", [True, False])
def test_resolve_dtype_auto_is_bf16_only_where_it_is_fast(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: fast)
    assert resolve_dtype(Compute.AUTO, CPU) is (torch.bfloat16 if fast else torch.float32)
    assert resolve_dtype(Compute.FP32, CPU) is torch.float32
    assert resolve_dtype(Compute.BF16, CPU) is torch.bfloat16


@pytest.mark.parametrize(
    ("memory_mib", "block_kib"), [(100, 1024), (400, 2048), (24576, 16064), (81920, 29312), (1, 128)]
)
def test_resolve_block_bytes_auto_is_the_root_of_the_devices_memory(
    memory_mib: int, block_kib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_module, "device_memory", lambda _: memory_mib * MIB)
    size = resolve_block_bytes("auto", CPU)
    assert size == block_kib * 1024
    assert size % (64 << 10) == 0
    assert abs(size / MIB - math.sqrt(memory_mib / 100)) <= 1 / 32 + 1e-9
    assert resolve_block_bytes(12345, CPU) == 12345


def test_device_memory_of_the_cpu_is_the_machines() -> None:
    assert probe.device_memory(CPU) == psutil.virtual_memory().total
    assert 0 < probe.free_device_memory(CPU) <= psutil.virtual_memory().total


def test_from_spec_words_reach_the_engine() -> None:
    made = engine_config(
        FOLDER,
        offload={
            "param_block_size": "2MiB", "prefetch_window": 5, "max_gpu_blocks": 9, "policy": "lru",
            "host_memory": "3GiB",
        },
        training={
            "global_batch_size": 12, "micro_batch_size": 3, "learning_rate": 7e-4, "schedule": "linear",
            "warmup_steps": 0.1, "weight_decay": 0.2, "betas": [0.8, 0.9], "eps": 1e-6,
            "max_grad_norm": 2.0, "seed": 11,
        },
        compute={"recompute": "never"},
    )  # fmt: skip
    assert (made.block_bytes, made.window, made.max_blocks) == (2 * MIB, 5, 9)
    assert (made.policy, made.host_limit_bytes) == (Policy.LRU, 3 << 30)
    assert (made.global_batch, made.micro_batch) == (12, 3)
    assert (made.learning_rate, made.lr_schedule.value, made.warmup, made.weight_decay) == (7e-4, "linear", 0.1, 0.2)
    assert (made.betas, made.eps, made.max_grad_norm, made.seed) == ((0.8, 0.9), 1e-6, 2.0, 11)
    assert (made.recompute, made.model_dir, made.device) == (Recompute.NEVER, FOLDER, CPU)


def test_from_spec_words_of_tiers_precision_and_accumulation_reach_the_engine() -> None:
    made = engine_config(
        FOLDER, disk_dir=Path("scratch"),
        offload={"disk": "on", "disk_memory": "5GiB"},
        training={"gradient_ema": 0.9},
        precision={"compute": "fp16", "keep_fp32": ["norm", "lm_head"], "loss_scale": 1024, "optimizer_state": "int8"},
        compute={"schedule": "micro_batch_major"},
        accumulation={"policy": "fixed", "keep_global_batch": False},
    )  # fmt: skip
    assert (made.disk, made.disk_dir, made.disk_limit_bytes) == (Disk.ON, Path("scratch"), 5 << 30)
    assert (made.compute_dtype, made.keep_fp32, made.loss_scale) == (torch.float16, ("norm", "lm_head"), 1024)
    assert (made.optimizer_state, made.gradient_ema) == (OptimizerState.INT8, 0.9)
    assert made.order is ScheduleOrder.MICRO_BATCH_MAJOR
    assert (made.accumulation, made.keep_global_batch) == (AccumulationPolicy.FIXED, False)


def test_from_spec_updates_run_beside_the_compute_on_a_card_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_config(FOLDER).update_threads == 0
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert engine_config(FOLDER, offload={"device": "cuda"}).update_threads >= 1


@pytest.mark.parametrize(("word", "first"), [("auto", AUTO_WINDOW_START), (0, 0), (6, 6)])
def test_from_spec_window_auto_begins_somewhere(word: str | int, first: int) -> None:
    made = engine_config(FOLDER, offload={"prefetch_window": word})
    assert made.first_window == first
    assert (made.window is None) == (word == "auto")


def test_from_spec_autos_are_left_to_the_sizes() -> None:
    made = engine_config(FOLDER)
    assert (made.max_blocks, made.micro_batch, made.host_limit_bytes) == (None, None, None)
    assert (made.disk_limit_bytes, made.host_inputs, made.loss_scale) == (None, None, None)


@pytest.mark.parametrize(("batch", "steps", "micro"), [(12, 4, 3), (10, 4, 3), (4, 1, 4)])
def test_from_spec_accumulation_steps_decide_the_micro_batch(batch: int, steps: int, micro: int) -> None:
    made = engine_config(FOLDER, training={"global_batch_size": batch}, accumulation={"steps": steps})
    assert made.micro_batch == micro
