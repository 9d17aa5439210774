"""Whether a spec can run, from numbers alone."""

from typing import Any

import pytest

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_spec import Compute, RunSpec
from horizon_app.planning.facts import MachineFacts, ModelFacts
from horizon_app.planning.feasibility import check, host_bytes_per_parameter

GIB = 1 << 30


def model(**changes: Any) -> ModelFacts:
    values: dict[str, Any] = {
        "architecture": "LlamaForCausalLM", "layers": 2, "dtype": "f32", "parameters": 100 << 20, "weight_bytes": 1,
        "has_weights": True, "has_tokenizer": True, "widest_row": ("w", 4096), "obstacle": "", "weights_obstacle": "",
    }  # fmt: skip
    return ModelFacts(**{**values, **changes})


def problems(
    facts: ModelFacts | None = None, machine: MachineFacts | None = None, **sections: Any
) -> list[FieldProblem]:
    spec = RunSpec.model_validate({"model": {"path": "m"}, "data": {"path": "d"}, **sections})
    return check(spec, facts or model(), machine or MachineFacts(host_bytes=8 * GIB, cuda_devices=0))


def test_spec_that_fits_has_no_problem() -> None:
    assert problems() == []


@pytest.mark.parametrize(("compute", "bytes_each"), [(Compute.FP32, 16), (Compute.BF16, 18), (Compute.AUTO, 16)])
def test_host_bytes_are_masters_moments_gradients_and_the_copy(compute: Compute, bytes_each: int) -> None:
    assert host_bytes_per_parameter(compute) == bytes_each


def test_host_limit_below_the_need_is_refused_with_the_numbers_and_the_least_that_works() -> None:
    (found,) = problems(offload={"host_memory": "1GiB"}, precision={"compute": "fp32"})
    assert found.field == "offload.host_memory"
    assert "1,600 MiB" in found.message and "1,024 MiB" in found.message
    assert problems(offload={"host_memory": found.fix.split()[3]}, precision={"compute": "fp32"}) == []


def test_model_larger_than_the_machine_is_refused() -> None:
    (found,) = problems(model(parameters=1 << 30))
    assert "this machine has 8,192 MiB" in found.message and "smaller model" in found.fix


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
    found = problems(machine=MachineFacts(host_bytes=8 * GIB, cuda_devices=cards), offload={"device": device})
    assert [problem.field for problem in found] == (["offload.device"] if refused else [])


def test_model_without_weights_is_refused_unless_they_are_drawn_at_random() -> None:
    bare = model(has_weights=False, weights_obstacle="the folder has no weights")
    (found,) = problems(bare)
    assert "random" in found.fix
    assert problems(bare, model={"path": "m", "init": "random"}) == []


def test_model_that_is_none_is_refused_for_that_alone() -> None:
    (found,) = problems(model(obstacle="BertForMaskedLM is no causal model", has_tokenizer=False, parameters=1 << 40))
    assert found.field == "model.path"


def test_model_without_a_tokenizer_is_refused() -> None:
    (found,) = problems(model(has_tokenizer=False))
    assert "tokenizer" in found.message


def test_model_of_unknown_size_is_not_refused_for_it() -> None:
    assert problems(model(parameters=None, widest_row=None)) == []
