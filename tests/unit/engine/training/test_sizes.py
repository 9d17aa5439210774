from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig

from horizon_app.contracts.run_spec import Recompute
from horizon_app.engine.errors import ArenaTooSmall, TierExhausted
from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Use
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.training import sizes as sizes_module
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.sizes import GRADIENT_SLOTS, Sizes, decide_sizes, host_plane_bytes
from tests.support.engines import engine_config

MIB = 1 << 20
BLOCK = 64 << 10
BLOCKS = 40
LLAMA = LlamaConfig(
    hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, vocab_size=320,
)  # fmt: skip


def model(blocks: int = BLOCKS) -> Partition:
    numel = BLOCK // 4
    facts = [ParameterFacts(name=f"w{i}", shape=(64, numel // 64), use=Use.LINEAR, decay=True) for i in range(blocks)]
    return partition([("L0", facts)], block_bytes=BLOCK, element_bytes=4)


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> EngineConfig:
    give_memory(monkeypatch, 1 << 30)
    return engine_config(Path("model"), offload={"param_block_size": "64KiB"})


def give_memory(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(sizes_module, "free_device_memory", lambda _: free)


def decide(config: EngineConfig, **changes: object) -> Sizes:
    return decide_sizes(replace(config, **changes), model(), LLAMA)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "bytes_each"), [(torch.float32, 16), (torch.bfloat16, 18)])
def test_host_plane_bytes_are_those_of_the_pool(dtype: torch.dtype, bytes_each: int) -> None:
    part = model(3)
    assert host_plane_bytes(part, dtype) == part.numel * bytes_each == HostPool(part, dtype).num_bytes


def test_sizes_arena_auto_with_room_holds_the_whole_model_and_its_gradients(config: EngineConfig) -> None:
    sizes = decide(config)
    assert sizes.num_slots == BLOCKS + GRADIENT_SLOTS
    assert sizes.arena_bytes == sizes.num_slots * BLOCK
    assert sizes.host_bytes == BLOCKS * BLOCK * 4


def test_sizes_arena_auto_takes_half_of_what_the_planes_leave(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    planes = BLOCKS * BLOCK * 4
    give_memory(monkeypatch, planes + 20 * BLOCK)
    assert decide(config).num_slots == 10


def test_sizes_arena_auto_never_goes_below_what_a_step_needs(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, BLOCKS * BLOCK * 4 + 2 * BLOCK)
    assert decide(config).num_slots == 2


def test_sizes_arena_larger_than_the_model_is_cut_to_it(config: EngineConfig) -> None:
    assert decide(config, max_blocks=10_000).num_slots == BLOCKS + GRADIENT_SLOTS
    assert decide(config, max_blocks=7).num_slots == 7


@pytest.mark.parametrize(("slots", "for_gradients"), [(2, 1), (7, 1), (8, 2), (42, 2)])
def test_sizes_gradients_get_a_second_slot_from_a_large_arena_on(
    config: EngineConfig, slots: int, for_gradients: int
) -> None:
    assert decide(config, max_blocks=slots).gradient_slots == for_gradients


def test_sizes_arena_of_one_slot_is_refused_with_the_number_that_works(config: EngineConfig) -> None:
    with pytest.raises(ArenaTooSmall) as refusal:
        decide(config, max_blocks=1)
    assert (refusal.value.slots, refusal.value.needed) == (1, 2)
    assert "offload.max_gpu_blocks is 1" in str(refusal.value)
    assert "set it to 2 or more" in str(refusal.value)
    assert decide(config, max_blocks=refusal.value.needed).num_slots == 2


def test_sizes_planes_beyond_the_host_limit_are_refused_with_both_numbers(config: EngineConfig) -> None:
    with pytest.raises(TierExhausted) as refusal:
        decide(config, host_limit_bytes=4 * MIB)
    assert (refusal.value.tier, refusal.value.needed_bytes, refusal.value.free_bytes) == ("host", 10 * MIB, 4 * MIB)
    for words in ("host tier", "10 MiB", "4 MiB", "offload.host_memory"):
        assert words in str(refusal.value)
    assert decide(config, host_limit_bytes=10 * MIB).host_bytes == 10 * MIB


def test_sizes_planes_beyond_free_memory_are_refused(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    give_memory(monkeypatch, 9 * MIB)
    with pytest.raises(TierExhausted, match="needs 10 MiB, but 9 MiB are free"):
        decide(config)


def test_sizes_arena_beyond_free_memory_is_refused_with_both_numbers(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 11 * MIB)
    with pytest.raises(TierExhausted) as refusal:
        decide(config, max_blocks=30)
    assert (refusal.value.tier, refusal.value.needed_bytes, refusal.value.free_bytes) == ("device", 30 * BLOCK, MIB)
    assert "offload.max_gpu_blocks" in str(refusal.value)


def test_sizes_recompute_auto_keeps_activations_only_where_they_fit(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decide(config, recompute=Recompute.AUTO).recompute is False
    long = {"recompute": Recompute.AUTO, "sequence_length": 4096, "global_batch": 64}
    assert decide(config, **long).recompute is True
    give_memory(monkeypatch, 1 << 40)
    assert decide(config, **long).recompute is False


def test_sizes_recompute_words_are_obeyed(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert decide(config, recompute=Recompute.ALWAYS).recompute is True
    give_memory(monkeypatch, 14 * MIB)
    assert decide(config, recompute=Recompute.NEVER, sequence_length=8192).recompute is False


def test_sizes_recompute_needs_less_activation_memory(config: EngineConfig) -> None:
    kept = decide(config, recompute=Recompute.NEVER).activation_bytes
    assert decide(config, recompute=Recompute.ALWAYS, micro_batch=1).activation_bytes < kept


@pytest.mark.parametrize(
    ("global_batch", "sequence_length", "micro"),
    [(4, 1024, 4), (8, 1024, 8), (9, 1024, 5), (16, 1024, 8), (3, 10_000, 1), (1, 64, 1)],
)
def test_sizes_micro_batch_auto_is_the_largest_even_split(
    config: EngineConfig, global_batch: int, sequence_length: int, micro: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 1 << 40)
    sizes = decide(config, global_batch=global_batch, sequence_length=sequence_length)
    assert sizes.micro_batch == micro


def test_sizes_micro_batch_auto_shrinks_with_memory(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {"global_batch": 64, "sequence_length": 128, "recompute": Recompute.ALWAYS, "max_blocks": 2}
    sizes = [0]
    for free in (11 * MIB, 40 * MIB, 400 * MIB):
        give_memory(monkeypatch, free)
        sizes.append(decide(config, **shape).micro_batch)
    assert 1 <= sizes[1] < sizes[2] < sizes[3] == 64


def test_sizes_micro_batch_larger_than_the_global_batch_is_cut_to_it(config: EngineConfig) -> None:
    assert decide(config, micro_batch=100, global_batch=4).micro_batch == 4


def test_sizes_activations_are_those_of_the_micro_batch_that_runs(config: EngineConfig) -> None:
    asked = decide(config, micro_batch=100, global_batch=4, recompute=Recompute.ALWAYS)
    assert asked == decide(config, micro_batch=4, global_batch=4, recompute=Recompute.ALWAYS)
