import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from horizon_app.control.model_folder import read_model_facts
from horizon_app.engine.model import finite_scan
from horizon_app.engine.model.finite_scan import scan_tensor
from horizon_app.engine.model.inspect import Inspection, group_name, inspect_model
from horizon_app.engine.training.rehearsal import rehearse
from tests.support.small_model import write_small_model

Tensors = dict[str, torch.Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole checkpoint: config, tokenizer, weights."""
    path = write_small_model(tmp_path / "model")
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path), dtype=torch.bfloat16).save_pretrained(path)
    return path


def inspect(folder: Path) -> Inspection:
    return inspect_model(folder, read_model_facts(folder), rehearse)


def change_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_inspection_of_a_whole_checkpoint_tells_everything_and_that_it_can_be_trained(folder: Path) -> None:
    found = inspect(folder)
    assert (found.trainable, found.obstacles) == (True, ())
    assert (found.architecture, found.layers, found.dtype, found.tied) == ("LlamaForCausalLM", 4, "bf16", False)
    assert (found.embedding_rows, found.tokenizer_size, found.has_chat_template) == (257, 257, False)
    groups = {group.name: (group.tensors, group.parameters, group.dtype) for group in found.groups}
    assert groups["model.layers.*.mlp"] == (12, 4 * 3 * 64 * 160, "bf16")
    assert groups["lm_head"] == (1, 257 * 64, "bf16")
    assert found.parameters == sum(group.parameters for group in found.groups)


def test_inspection_of_a_tied_model_counts_the_shared_weight_once(tmp_path: Path) -> None:
    path = write_small_model(tmp_path / "model")
    change_config(path, tie_word_embeddings=True)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path)).save_pretrained(path)
    found = inspect(path)
    assert (found.trainable, found.tied) == (True, True)
    assert found.parameters == sum(group.parameters for group in found.groups)


def test_inspection_without_weights_says_so_and_counts_the_configs_model(tmp_path: Path) -> None:
    found = inspect(write_small_model(tmp_path / "model"))
    assert not found.trainable
    assert "no weights" in found.obstacles[0]
    assert found.groups == ()
    assert found.parameters == 2 * 257 * 64 + 64 + 4 * (3 * 64 * 160 + 2 * 64 * 64 + 2 * 64 * 32 + 2 * 64)


def drop_one(tensors: Tensors) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if name != "model.layers.2.mlp.up_proj.weight"}


def cut_one(tensors: Tensors) -> Tensors:
    return {**tensors, "model.norm.weight": tensors["model.norm.weight"][:-1].clone()}


def make_whole_numbers(tensors: Tensors) -> Tensors:
    return {**tensors, "lm_head.weight": tensors["lm_head.weight"].to(torch.int8)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_one, "1 of 39 tensors are missing, first model.layers.2.mlp.up_proj.weight"),
        (cut_one, "model.norm.weight has shape [63], the config asks for [64]"),
        (make_whole_numbers, "lm_head.weight holds I8"),
    ],
)
def test_inspection_of_weights_that_do_not_fit_names_the_tensor(
    change: Callable[[Tensors], Tensors], words: str, folder: Path
) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path)
    found = inspect(folder)
    assert not found.trainable
    assert words in "; ".join(found.obstacles)


def spoil(folder: Path, name: str, **places: float) -> None:
    """Put values into a stored tensor: `_126_3=nan` at [126, 3]."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for place, value in places.items():
        tensors[name][tuple(int(i) for i in place.strip("_").split("_"))] = value
    save_file(tensors, path)


def test_inspection_names_tensors_with_values_that_are_no_numbers(folder: Path) -> None:
    nan, inf = float("nan"), float("inf")
    spoil(folder, "model.layers.1.mlp.up_proj.weight", _3_5=-inf, _3_6=nan, _159_63=inf)
    spoil(folder, "lm_head.weight", _256_63=nan)
    found = inspect(folder)
    assert [(t.name, t.count, t.first_index, t.first) for t in found.nonfinite] == [
        ("lm_head.weight", 1, (256, 63), "nan"),
        ("model.layers.1.mlp.up_proj.weight", 3, (3, 5), "-inf"),
    ]
    assert found.trainable  # a run starts, and stops where it meets them


def test_inspection_of_finite_weights_reports_none(folder: Path) -> None:
    spoil(folder, "model.norm.weight", _0=torch.finfo(torch.bfloat16).max)
    assert inspect(folder).nonfinite == ()


def test_scan_looks_at_every_piece_and_counts_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite_scan, "PIECE", 7)
    tensor = torch.zeros(5, 6)
    tensor[2, 3] = tensor[4, 5] = float("nan")
    found = scan_tensor("w", tensor)
    assert found is not None
    assert (found.count, found.first_index) == (2, (2, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_scan_takes_every_floating_format(dtype: torch.dtype) -> None:
    tensor = torch.tensor([1.0, float("nan"), 2.0]).to(dtype)
    found = scan_tensor("w", tensor)
    assert found is not None and found.first_index == (1,)
    assert scan_tensor("w", torch.tensor([1.0, 2.0]).to(dtype)) is None


@pytest.mark.parametrize("tensor", [torch.zeros(0), torch.arange(3), torch.tensor(1.5)])
def test_scan_of_nothing_whole_numbers_and_one_number_finds_none(tensor: torch.Tensor) -> None:
    assert scan_tensor("w", tensor) is None


def test_scan_of_one_bad_number_alone_has_no_index_to_tell() -> None:
    found = scan_tensor("w", torch.tensor(float("inf")))
    assert found is not None and (found.first_index, found.first) == ((), "inf")


def test_inspection_of_a_file_cut_short_says_so(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    found = inspect(folder)
    assert not found.trainable
    assert "cut short" in found.obstacles[0]


def test_inspection_of_a_tokenizer_larger_than_the_embedding_tells_both_sizes(folder: Path) -> None:
    change_config(folder, vocab_size=200, pad_token_id=None, bos_token_id=0, eos_token_id=0)
    (folder / "model.safetensors").unlink()
    found = inspect(folder)
    assert "the tokenizer's largest token id is 256, but the embedding has 200 rows (ids 0 to 199)" in found.obstacles


def test_inspection_of_a_config_that_no_model_fits_says_so(folder: Path) -> None:
    change_config(folder, hidden_act="zebra")
    found = inspect(folder)
    assert not found.trainable
    assert "no model can be built from config.json" in found.obstacles[0]


def test_inspection_without_a_tokenizer_says_so(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()
    found = inspect(folder)
    assert (found.tokenizer_size, found.has_chat_template) == (None, None)
    assert any("tokenizer" in reason for reason in found.obstacles)


def test_inspection_of_an_unknown_architecture_keeps_what_the_headers_tell(folder: Path) -> None:
    change_config(folder, model_type="zebra", architectures=["ZebraForCausalLM"])
    found = inspect(folder)
    assert not found.trainable
    assert any("zebra" in reason for reason in found.obstacles)
    assert found.groups[0].name == "model.layers.*.mlp"
    assert all("\n" not in reason for reason in found.obstacles)


def test_inspection_of_quantised_weights_says_that_they_are(folder: Path) -> None:
    change_config(folder, quantization_config={"quant_method": "fp8"})
    found = inspect(folder)
    assert not found.trainable
    assert any("quantised" in reason for reason in found.obstacles)


def test_inspection_of_an_empty_folder_says_what_is_missing(tmp_path: Path) -> None:
    found = inspect(tmp_path)
    assert not found.trainable
    assert any("config.json" in reason for reason in found.obstacles)


@pytest.mark.parametrize(
    ("tensor", "group"),
    [
        ("model.layers.3.mlp.up_proj.weight", "model.layers.*.mlp"),
        ("model.layers.3.mlp.experts.17.up_proj.weight", "model.layers.*.mlp"),
        ("model.layers.12.input_layernorm.weight", "model.layers.*.input_layernorm"),
        ("h.0.attn.c_attn.bias", "h.*.attn"),
        ("model.embed_tokens.weight", "model.embed_tokens"),
        ("weight", "weight"),
    ],
)
def test_group_of_a_tensor_is_its_module_over_all_layers(tensor: str, group: str) -> None:
    assert group_name(tensor) == group
