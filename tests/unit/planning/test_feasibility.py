"""Whether a spec can run, from numbers alone."""

from typing import Any

import pytest

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_spec import OptimizerState, RunSpec
from horizon_app.planning.facts import MachineFacts, ModelFacts
from horizon_app.planning.feasibility import MOMENT_BYTES, check, host_bytes_per_parameter

GIB = 1 << 30
DISK_FREE = 16 * GIB
FP32 = {"compute": "fp32"}


def model(**changes: Any) -> ModelFacts:
    values: dict[str, Any] = {
        "architecture": "LlamaForCausalLM", "layers": 2, "dtype": "f32", "parameters": 100 << 20, "weight_bytes": 1,
        "model_type": "llama", "largest_token_id": 255, "embedding_rows": 256, "recurrent_layers": "",
        "has_weights": True, "has_tokenizer": True, "widest_row": ("w", 4096), "obstacle": "", "weights_obstacle": "",
    }  # fmt: skip
    return ModelFacts(**{**values, **changes})


def spec_of(**sections: Any) -> RunSpec:
    return RunSpec.model_validate({"model": {"path": "m"}, "data": {"path": "d"}, **sections})


def problems(
    facts: ModelFacts | None = None, machine: MachineFacts | None = None, **sections: Any
) -> list[FieldProblem]:
    usual = MachineFacts(host_bytes=8 * GIB, cuda_devices=0, disk_free_bytes=DISK_FREE)
    return check(spec_of(**sections), facts or model(), machine or usual)


def test_spec_that_fits_has_no_problem() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("sections", "bytes_each"),
    [
        ({"precision": {"compute": "fp32"}}, 16),
        ({"precision": {"compute": "auto"}}, 16),
        ({"precision": {"compute": "bf16"}}, 18),
        ({"precision": {"compute": "fp16"}}, 18),
        ({"precision": {"compute": "fp32", "optimizer_state": "int8"}}, 10.03125),
        ({"precision": {"compute": "fp32"}, "training": {"gradient_ema": 0.9}}, 20),
    ],
)
def test_bytes_of_a_parameter_are_all_its_planes(sections: dict[str, Any], bytes_each: float) -> None:
    assert host_bytes_per_parameter(spec_of(**sections)) == bytes_each


def test_bytes_of_8_bit_moments_are_those_that_the_engine_takes() -> None:
    from horizon_app.engine.optim.moments8 import packed_bytes

    assert packed_bytes(1 << 20) == MOMENT_BYTES[OptimizerState.INT8] * (1 << 20)


def test_host_limit_below_the_need_without_a_disk_is_refused_with_the_ways_out() -> None:
    limited: dict[str, Any] = {"host_memory": "1GiB", "disk": "off"}
    (found,) = problems(offload=limited, precision=FP32)
    assert found.field == "offload.host_memory"
    assert "1,600 MiB" in found.message and "1,024 MiB" in found.message and "offload.disk is off" in found.message
    assert found.fix == "set it to 1600MiB or more, or set offload.disk to auto"
    assert problems(offload={**limited, "host_memory": "1600MiB"}, precision=FP32) == []
    assert problems(offload={**limited, "disk": "auto"}, precision=FP32) == []


def test_small_needs_are_told_so_that_they_differ() -> None:
    (found,) = problems(model(parameters=40_000), offload={"host_memory": "512KiB", "disk": "off"}, precision=FP32)
    assert "needs 0.61 MiB" in found.message and "allows 0.50 MiB" in found.message


def test_model_larger_than_the_machine_without_a_disk_is_sent_to_it_only_if_that_helps() -> None:
    (found,) = problems(model(parameters=1 << 30), offload={"disk": "off"})
    assert "this machine has 8,192 MiB of memory" in found.message and found.fix == "set offload.disk to auto"
    (found,) = problems(model(parameters=1 << 33), offload={"disk": "off"})
    assert "smaller model" in found.fix


@pytest.mark.parametrize("disk", ["auto", "on"])
def test_model_larger_than_the_machine_but_not_than_its_disk_can_run(disk: str) -> None:
    most = (8 * GIB + DISK_FREE) // 16
    assert problems(model(parameters=most), offload={"disk": disk}, precision=FP32) == []
    (found,) = problems(model(parameters=most + 1), offload={"disk": disk}, precision=FP32)
    assert found.field == "offload.disk_path"
    assert "8,192 MiB of memory" in found.message and "folder has 16,384 MiB free" in found.message
    assert found.fix == "name a folder with 16385MiB free, or train a smaller model"


def test_disk_limit_that_is_too_small_is_refused_and_the_fix_works() -> None:
    limits: dict[str, Any] = {"host_memory": "1GiB", "disk_memory": "100MiB"}
    (found,) = problems(offload=limits, precision=FP32)
    assert found.field == "offload.disk_memory"
    assert (
        "offload.disk_memory allows 100 MiB" in found.message
        and "offload.host_memory allows 1,024 MiB" in found.message
    )
    assert found.fix == "set it to 576MiB or more"
    assert problems(offload={**limits, "disk_memory": "576MiB"}, precision=FP32) == []


def test_host_limit_beside_a_disk_that_is_nearly_full_is_refused_and_the_fix_works() -> None:
    full = MachineFacts(host_bytes=8 * GIB, cuda_devices=0, disk_free_bytes=100 << 20)
    (found,) = problems(machine=full, offload={"host_memory": "1GiB"}, precision=FP32)
    assert (found.field, found.fix) == ("offload.host_memory", "set it to 1500MiB or more")
    assert problems(machine=full, offload={"host_memory": "1500MiB"}, precision=FP32) == []


def test_disk_limit_above_what_is_free_counts_as_what_is_free() -> None:
    full = MachineFacts(host_bytes=1 * GIB, cuda_devices=0, disk_free_bytes=100 << 20)
    (found,) = problems(machine=full, offload={"disk_memory": "64GiB"}, precision=FP32)
    assert found.field == "offload.disk_path" and found.fix.startswith("name a folder with 576MiB free")


def test_block_smaller_than_a_row_is_refused_and_the_fix_works() -> None:
    (found,) = problems(
        model(widest_row=("down_proj", 30_000)), offload={"param_block_size": "64KiB"}, precision={"compute": "fp32"}
    )
    assert found.field == "offload.param_block_size" and "down_proj" in found.message and "120000" in found.message
    assert found.fix == "set it to 120KiB or more"
    assert (
        problems(model(widest_row=("w", 30_000)), offload={"param_block_size": "120KiB"}, precision={"compute": "fp32"})
        == []
    )


@pytest.mark.parametrize(
    ("device", "cards", "refused"),
    [("cuda", 0, True), ("cuda:1", 1, True), ("cuda:0", 1, False), ("auto", 0, False), ("cpu", 0, False)],
)
def test_card_that_is_not_there_is_refused(device: str, cards: int, refused: bool) -> None:
    machine = MachineFacts(host_bytes=8 * GIB, cuda_devices=cards, disk_free_bytes=DISK_FREE)
    found = problems(machine=machine, offload={"device": device})
    assert [problem.field for problem in found] == (["offload.device"] if refused else [])


def test_model_without_weights_is_refused_unless_they_are_drawn_at_random() -> None:
    bare = model(has_weights=False, weights_obstacle="the folder has no weights")
    (found,) = problems(bare)
    assert "random" in found.fix
    assert problems(bare, model={"path": "m", "init": "random"}) == []


def test_tokenizer_that_gives_larger_ids_than_the_embedding_has_rows_is_refused_with_both() -> None:
    (found,) = problems(model(largest_token_id=256))
    assert "256" in found.message and "0 to 255" in found.message


def test_packing_is_refused_where_layers_carry_state_along() -> None:
    hybrid = model(recurrent_layers="linear_attention")
    (found,) = problems(hybrid)
    assert (found.field, found.fix) == ("data.packing", "set it to false")
    assert problems(hybrid, data={"path": "d", "packing": False}) == []


def test_model_that_is_none_is_refused_for_that_alone() -> None:
    (found,) = problems(model(obstacle="BertForMaskedLM is no causal model", has_tokenizer=False, parameters=1 << 40))
    assert found.field == "model.path"


def test_model_without_a_tokenizer_is_refused() -> None:
    (found,) = problems(model(has_tokenizer=False))
    assert "tokenizer" in found.message


def test_model_of_unknown_size_is_not_refused_for_it() -> None:
    assert problems(model(parameters=None, widest_row=None)) == []
