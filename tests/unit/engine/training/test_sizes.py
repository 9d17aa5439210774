import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from horizon_app.contracts.run_spec import Disk, OptimizerState, Recompute, ScheduleOrder
from horizon_app.engine.errors import ArenaTooSmall, TierExhausted
from horizon_app.engine.memory.geometry import ParameterFacts, Partition, Use
from horizon_app.engine.memory.planes import PlaneName
from horizon_app.engine.optim.accumulation import SCARCE
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.training import sizes as sizes_module
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.host_tier import HostLayout
from horizon_app.engine.training.sizes import GRADIENT_SLOTS, PROCESS_SHARE, RUNTIME_BYTES, Sizes, decide_sizes
from tests.support.engines import engine_config
from tests.support.host_pools import host_pool

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


@pytest.fixture
def on_card(config: EngineConfig) -> EngineConfig:
    return replace(config, device=torch.device("cuda", 0))


def give_memory(
    monkeypatch: pytest.MonkeyPatch, free: int, host: int = 1 << 30, total: int | None = None
) -> None:  # fmt: skip
    """So much is free on the device, twice as much (or `total`) is there; `host` is free in RAM."""
    monkeypatch.setattr(sizes_module, "free_device_memory", lambda _: free)
    monkeypatch.setattr(sizes_module, "device_memory", lambda _: total or 2 * free)
    monkeypatch.setattr(sizes_module.psutil, "virtual_memory", lambda: SimpleNamespace(available=host, total=host))


def decide(config: EngineConfig, **changes: Any) -> Sizes:
    changed = replace(config, **changes)
    return decide_sizes(changed, model(), layout_of(changed, model()), LLAMA)


def layout_of(config: EngineConfig, part: Partition) -> HostLayout:
    return HostLayout(part, config.compute_dtype, config.optimizer_state, averages=config.gradient_ema > 0)


@pytest.mark.parametrize(
    ("changes", "bytes_each"),
    [
        ({}, 16),
        ({"compute_dtype": torch.bfloat16}, 18),
        ({"gradient_ema": 0.9}, 20),
        ({"optimizer_state": OptimizerState.INT8}, 10),
    ],
)
def test_sizes_host_bytes_are_those_of_all_planes(
    config: EngineConfig, changes: dict[str, Any], bytes_each: int
) -> None:
    numel = BLOCKS * BLOCK // 4
    sizes = decide(config, **changes)
    assert sizes.host_bytes == pytest.approx(numel * bytes_each, rel=0.01), "8-bit moments carry their scales"
    if "optimizer_state" not in changes:
        assert sizes.host_bytes == numel * bytes_each


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sizes_host_bytes_are_what_a_pool_takes(config: EngineConfig, dtype: torch.dtype) -> None:
    assert decide(config, compute_dtype=dtype).host_bytes == host_pool(model(), dtype).num_bytes


def test_sizes_arena_auto_on_the_cpu_holds_gradients_alone(config: EngineConfig) -> None:
    sizes = decide(config)
    assert (sizes.shares_host, sizes.num_slots, sizes.arena_bytes) == (True, GRADIENT_SLOTS, GRADIENT_SLOTS * BLOCK)


def test_sizes_arena_of_a_number_holds_copies_on_the_cpu_too(config: EngineConfig) -> None:
    sizes = decide(config, max_blocks=7)
    assert (sizes.shares_host, sizes.num_slots) == (False, 7)


def test_sizes_weights_on_disk_are_not_shared(config: EngineConfig) -> None:
    sizes = decide(config, host_limit_bytes=4 * MIB)
    assert sizes.placement.frames[PlaneName.MASTER] is not None
    assert (sizes.shares_host, sizes.num_slots) == (False, BLOCKS + GRADIENT_SLOTS)


def test_sizes_arena_auto_with_room_holds_the_whole_model_and_its_gradients(on_card: EngineConfig) -> None:
    sizes = decide(on_card)
    assert (sizes.shares_host, sizes.num_slots) == (False, BLOCKS + GRADIENT_SLOTS)
    assert sizes.arena_bytes == sizes.num_slots * BLOCK


@pytest.mark.parametrize(("free_blocks", "slots"), [(20, 10), (5, 2), (2, 2)])
def test_sizes_arena_auto_takes_half_of_what_is_free_but_never_less_than_a_step_needs(
    on_card: EngineConfig, free_blocks: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, free_blocks * BLOCK)
    assert decide(on_card).num_slots == slots


def test_sizes_arena_auto_of_copies_on_the_cpu_takes_half_of_what_the_planes_leave(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    planes = decide(config, host_limit_bytes=4 * MIB).placement.host_bytes
    give_memory(monkeypatch, planes + 20 * BLOCK)
    assert decide(config, host_limit_bytes=4 * MIB).num_slots == 10


def test_sizes_arena_larger_than_the_model_is_cut_to_it(config: EngineConfig) -> None:
    assert decide(config, max_blocks=10_000).num_slots == BLOCKS + GRADIENT_SLOTS


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


def test_sizes_planes_beyond_the_host_limit_are_refused_with_both_numbers_where_no_disk_may_help(
    config: EngineConfig,
) -> None:
    with pytest.raises(TierExhausted) as refusal:
        decide(config, host_limit_bytes=4 * MIB, disk=Disk.OFF)
    assert (refusal.value.tier, refusal.value.needed_bytes, refusal.value.free_bytes) == ("host", 10 * MIB, 4 * MIB)
    for words in ("host tier", "10 MiB", "4 MiB", "offload.host_memory", "offload.disk"):
        assert words in str(refusal.value)
    assert decide(config, host_limit_bytes=10 * MIB, disk=Disk.OFF).host_bytes == 10 * MIB


def test_sizes_planes_beyond_the_host_limit_go_to_disk(config: EngineConfig) -> None:
    sizes = decide(config, host_limit_bytes=4 * MIB)
    assert sizes.placement.uses_disk
    assert sizes.host_bytes <= 4 * MIB


def test_sizes_disk_on_keeps_few_moments_in_ram_though_all_would_fit(config: EngineConfig) -> None:
    frames = decide(config, disk=Disk.ON).placement.frames
    assert {name for name, count in frames.items() if count is not None} == {PlaneName.EXP_AVG, PlaneName.EXP_AVG_SQ}


def test_sizes_host_that_is_too_small_for_any_frame_is_refused_with_what_works(config: EngineConfig) -> None:
    with pytest.raises(TierExhausted) as refusal:
        decide(config, host_limit_bytes=BLOCK)
    assert decide(config, host_limit_bytes=refusal.value.needed_bytes).host_bytes == refusal.value.needed_bytes


def test_sizes_host_auto_leaves_a_part_of_what_is_free(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    give_memory(monkeypatch, 1 << 30, host=12 * MIB)
    with pytest.raises(TierExhausted, match=r"needs 10 MiB, but 9\.6\d* MiB are free"):
        decide(config, disk=Disk.OFF)
    assert decide(config).host_bytes <= 9.6 * MIB


def test_sizes_host_auto_shrinks_until_the_process_fits_into_what_is_free(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 1 << 30)
    whole = decide(config)
    free = int(whole.process_bytes(on_cpu=True) / PROCESS_SHARE)
    give_memory(monkeypatch, free + MIB, host=free + MIB)
    assert decide(config).host_bytes == whole.host_bytes == 10 * MIB
    give_memory(monkeypatch, free - 4 * MIB, host=free - 4 * MIB)
    shrunk = decide(config)
    assert shrunk.process_bytes(on_cpu=True) <= PROCESS_SHARE * (free - 4 * MIB)
    assert shrunk.placement.uses_disk
    assert shrunk.host_bytes > 2 * MIB, "no more than needed goes to disk"
    assert decide(config, disk=Disk.OFF).host_bytes == 10 * MIB, "an upper estimate alone refuses nothing"


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
    assert decide(config, recompute=Recompute.AUTO).activations.layers_recomputed == 0
    long = {"recompute": Recompute.AUTO, "sequence_length": 4096, "global_batch": 64}
    assert decide(config, **long).activations.kept_layers == 0
    give_memory(monkeypatch, 1 << 40)
    assert decide(config, **long).activations.layers_recomputed == 0


def test_sizes_recompute_auto_keeps_as_many_layers_as_fit_beside_what_passes(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = copy.deepcopy(LLAMA)
    deep.num_hidden_layers = 12
    shape = {"recompute": Recompute.AUTO, "sequence_length": 1024, "global_batch": 8, "disk": Disk.OFF}
    kept: list[int] = []
    for free in (40, 480, 640, 1280, 2560):
        give_memory(monkeypatch, free * MIB)
        changed = replace(config, **shape)
        sizes = decide_sizes(changed, model(), layout_of(changed, model()), deep)
        assert sizes.activation_bytes(sizes.activations.micro_batch) - sizes.logits_bytes < free * MIB
        assert sizes.activations.kept_layers + sizes.activations.layers_recomputed == 12
        kept.append(sizes.activations.kept_layers)
    assert kept == sorted(kept) and kept[0] == 0 and kept[-1] == 12
    assert len(set(kept)) >= 4, "some but not all are kept in between"


def test_sizes_recompute_auto_counts_what_exists_at_once(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One micro-batch after the other, there is only ever what one of them keeps."""
    shape = {"recompute": Recompute.AUTO, "sequence_length": 1024, "global_batch": 64, "micro_batch": 1}
    give_memory(monkeypatch, RUNTIME_BYTES + 600 * MIB, host=8 << 30)
    at_once, one_by_one = decide(config, **shape), decide(config, **shape, order=ScheduleOrder.MICRO_BATCH_MAJOR)
    assert at_once.activations.kept_layers < LLAMA.num_hidden_layers == one_by_one.activations.kept_layers
    assert one_by_one.activation_bytes(1) < at_once.activation_bytes(1) < one_by_one.activation_bytes(64)


def test_sizes_recomputing_all_frees_what_was_kept(config: EngineConfig) -> None:
    sizes = decide(config, recompute=Recompute.AUTO, sequence_length=1024)
    assert sizes.activations.kept_layers == LLAMA.num_hidden_layers
    assert sizes.recomputing_all() == decide(config, recompute=Recompute.ALWAYS, sequence_length=1024)
    assert sizes.recomputing_all().free_share(1) > sizes.free_share(1)


def test_sizes_recompute_auto_leaves_the_ram_to_planes_that_else_lie_on_disk(
    config: EngineConfig, on_card: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where device and host are the same memory."""
    shape = {
        "recompute": Recompute.AUTO, "sequence_length": 2048, "global_batch": 4, "micro_batch": 1,
        "host_limit_bytes": 8 * MIB,
    }  # fmt: skip
    give_memory(monkeypatch, 150 * MIB, host=8 << 30)
    assert decide(on_card, **shape).activations.kept_layers == 1
    give_memory(monkeypatch, RUNTIME_BYTES + 150 * MIB, host=8 << 30)  # which libraries take in the process
    assert decide(config, **shape).placement.uses_disk
    assert decide(config, **shape).activations.kept_layers == 0
    assert decide(config, **{**shape, "host_limit_bytes": 20 * MIB}).activations.kept_layers == 1


def test_sizes_kept_layers_never_make_memory_scarce(on_card: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adaptive accumulation would take smaller micro-batches for it."""
    deep = copy.deepcopy(LLAMA)
    deep.num_hidden_layers = 200
    shape = {"recompute": Recompute.AUTO, "sequence_length": 16, "global_batch": 1, "disk": Disk.OFF}
    changed = replace(on_card, max_blocks=40, **shape)
    kept: list[int] = []
    for free in (5, 6, 8, 12, 24):
        give_memory(monkeypatch, free * MIB, total=free * MIB)
        sizes = decide_sizes(changed, model(), layout_of(changed, model()), deep)
        assert sizes.free_share(sizes.activations.micro_batch) > SCARCE
        kept.append(sizes.activations.kept_layers)
    assert 0 < kept[0] < kept[-1], "memory decides"


def test_sizes_recompute_words_are_obeyed(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert decide(config, recompute=Recompute.ALWAYS).activations.kept_layers == 0
    give_memory(monkeypatch, 14 * MIB)
    assert decide(config, recompute=Recompute.NEVER, sequence_length=8192).activations.layers_recomputed == 0


def test_sizes_recompute_needs_less_activation_memory(config: EngineConfig) -> None:
    kept = decide(config, recompute=Recompute.NEVER).activation_bytes(1)
    assert decide(config, recompute=Recompute.ALWAYS, micro_batch=1).activation_bytes(1) < kept


def test_sizes_smaller_micro_batches_leave_more_of_the_device_free(config: EngineConfig) -> None:
    sizes = decide(config, recompute=Recompute.ALWAYS, sequence_length=1024)
    shares = [sizes.free_share(micro) for micro in (1, 2, 4)]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == 3
    assert all(0 < share < 1 for share in shares)


LONG = {"sequence_length": 4096, "global_batch": 64, "recompute": Recompute.ALWAYS}
LONG_PAGE = LLAMA.hidden_size * 4 * 4096  # of one layer and sequence
WAITING = LONG_PAGE * 64 * 2


def test_sizes_layer_inputs_move_to_the_host_where_the_device_has_no_room(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 200 * MIB, host=8 << 30)
    sizes = decide(config, **LONG)
    assert (sizes.activations.host_inputs, sizes.inputs.host_bytes, sizes.inputs.disk_bytes) == (True, WAITING, 0)
    assert sizes.host_bytes == 10 * MIB + WAITING
    give_memory(monkeypatch, 64 << 30, host=8 << 30)
    assert decide(config, **LONG).activations.host_inputs is False
    assert decide(config, **{**LONG, "recompute": Recompute.NEVER}, host_inputs=True).activations.host_inputs is False


def test_sizes_layer_inputs_on_the_cpu_stay_where_they_are_when_no_disk_may_take_them(
    config: EngineConfig, on_card: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Device and host are the same memory there."""
    give_memory(monkeypatch, 200 * MIB, host=8 << 30)
    assert decide(config, **LONG, disk=Disk.OFF).activations.host_inputs is False
    assert decide(on_card, **LONG, disk=Disk.OFF).activations.host_inputs is True


def test_sizes_layer_inputs_beyond_what_the_host_has_left_go_to_disk(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 200 * MIB, host=8 << 30)
    sizes = decide(config, **LONG, host_limit_bytes=20 * MIB)
    assert (sizes.activations.host_inputs, sizes.inputs.frames, sizes.inputs.host_bytes) == (True, 10, 10 * MIB)
    assert sizes.inputs.disk_bytes == 128 * (LONG_PAGE + 4096)
    assert sizes.host_bytes == 20 * MIB


def test_sizes_planes_make_room_for_the_fewest_layer_inputs(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 200 * MIB, host=8 << 30)
    for limit in (13 * MIB, 10 * MIB, 6 * MIB):
        sizes = decide(config, **LONG, host_limit_bytes=limit)
        assert sizes.placement.uses_disk, limit
        assert sizes.inputs.host_bytes >= 4 * LONG_PAGE, limit
        assert sizes.host_bytes <= limit, limit
    with pytest.raises(TierExhausted, match="layer inputs wait there") as refusal:
        decide(config, **LONG, host_limit_bytes=5 * MIB - 1)
    assert decide(config, **LONG, host_limit_bytes=refusal.value.needed_bytes).host_bytes <= refusal.value.needed_bytes


def test_sizes_layer_inputs_that_no_disk_may_take_are_refused_where_the_host_has_no_room(
    on_card: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 200 * MIB, host=8 << 30)
    with pytest.raises(TierExhausted, match="global_batch_size") as refusal:
        decide(on_card, **LONG, disk=Disk.OFF, host_limit_bytes=20 * MIB)
    assert (refusal.value.tier, refusal.value.needed_bytes) == ("host", 10 * MIB + WAITING)
    enough = refusal.value.needed_bytes
    assert decide(on_card, **LONG, disk=Disk.OFF, host_limit_bytes=enough).host_bytes == enough


def test_sizes_disk_limit_counts_planes_and_layer_inputs_together(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 200 * MIB, host=8 << 30)
    shape = {**LONG, "host_limit_bytes": 13 * MIB}
    with pytest.raises(TierExhausted) as refusal:
        decide(config, **shape, disk_limit_bytes=1)
    needed = refusal.value.needed_bytes
    assert (refusal.value.tier, refusal.value.free_bytes) == ("disk", 1)
    assert needed > decide(config, **shape).inputs.disk_bytes
    decide(config, **shape, disk_limit_bytes=needed)


def test_sizes_layer_inputs_have_pages_for_the_most_sequences_that_a_step_may_grow_to(config: EngineConfig) -> None:
    fixed = {**LONG, "global_batch": 4, "micro_batch": 2, "host_inputs": True}
    assert decide(config, **fixed).inputs.num_pages == 4 * 2
    assert decide(config, **fixed, keep_global_batch=False).inputs.num_pages == 8 * 2 * 2
    one_after_the_other = {**fixed, "order": ScheduleOrder.MICRO_BATCH_MAJOR}
    assert decide(config, **one_after_the_other).inputs.num_pages == 2 * 2


@pytest.mark.parametrize(
    ("global_batch", "sequence_length", "micro"),
    [(4, 1024, 4), (8, 1024, 8), (9, 1024, 5), (16, 1024, 8), (3, 10_000, 1), (1, 64, 1)],
)
def test_sizes_micro_batch_auto_is_the_largest_even_split(
    config: EngineConfig, global_batch: int, sequence_length: int, micro: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 1 << 40)
    sizes = decide(config, global_batch=global_batch, sequence_length=sequence_length)
    assert sizes.activations.micro_batch == micro


def test_sizes_micro_batch_auto_shrinks_with_memory(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {"global_batch": 64, "sequence_length": 128, "recompute": Recompute.ALWAYS, "max_blocks": 2}
    sizes = [0]
    for free in (11 * MIB, 80 * MIB, 800 * MIB):
        give_memory(monkeypatch, RUNTIME_BYTES + free)
        sizes.append(decide(config, **shape).activations.micro_batch)
    assert 1 <= sizes[1] < sizes[2] < sizes[3] == 64


def test_sizes_micro_batch_larger_than_the_global_batch_is_cut_to_it(config: EngineConfig) -> None:
    assert decide(config, micro_batch=100, global_batch=4).activations.micro_batch == 4


def test_sizes_activations_are_those_of_the_micro_batch_that_runs(config: EngineConfig) -> None:
    asked = decide(config, micro_batch=100, global_batch=4, recompute=Recompute.ALWAYS)
    assert asked == decide(config, micro_batch=4, global_batch=4, recompute=Recompute.ALWAYS)
