import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from horizon_app.engine.errors import UnsupportedModel, WeightsUnusable
from horizon_app.engine.model import gguf
from horizon_app.engine.model.gguf import convert_gguf
from horizon_app.engine.model.tensor_writer import TensorEntry, WrittenFile, write_tensors
from tests.support.tiny_gguf import TEMPLATE, TOKENS, tiny_llama, write_gguf

IDS = torch.tensor([[5, 80, 17, 200, 33, 64, 120]])


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits.float()


def load(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder)


@pytest.mark.parametrize("tied", [True, False])
def test_converted_model_computes_what_the_model_behind_the_file_computes(tied: bool, tmp_path: Path) -> None:
    original = tiny_llama(tied=tied)
    path = write_gguf(tmp_path / "m.gguf", original)
    done = convert_gguf(path, tmp_path / "out", dtype=torch.float32)
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    torch.testing.assert_close(logits(converted), logits(original), rtol=1e-5, atol=1e-5)
    assert (done.tied, done.difference, done.encoding) == (tied, 0.0, "F32")
    assert done.parameters == sum(p.numel() for p in original.parameters())


def test_converted_tied_model_stores_one_copy_and_says_that_it_is_tied(tmp_path: Path) -> None:
    convert_gguf(write_gguf(tmp_path / "m.gguf", tiny_llama()), tmp_path / "out", dtype=torch.bfloat16)
    stored = load_file(tmp_path / "out" / "model.safetensors")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert stored.keys() == dict(tiny_llama().named_parameters()).keys()
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    assert config["tie_word_embeddings"] is True
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["dtype"] == "bfloat16"
    assert "quantization_config" not in config


def test_converted_quantised_model_is_near_the_original_and_equal_to_the_file(tmp_path: Path) -> None:
    original = tiny_llama()
    path = write_gguf(tmp_path / "m.gguf", original, encoding=GGMLQuantizationType.Q8_0)
    done = convert_gguf(path, tmp_path / "out", dtype=torch.float32)
    found = logits(AutoModelForCausalLM.from_pretrained(tmp_path / "out"))
    assert done.difference == 0.0
    assert 0 < float((found - logits(original)).std() / found.std()) < 0.1


def test_converted_folder_holds_tokenizer_template_and_generation_config(tmp_path: Path) -> None:
    done = convert_gguf(write_gguf(tmp_path / "m.gguf", tiny_llama()), tmp_path / "out", dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "the"}], tokenize=False)
    assert tokenizer.chat_template == TEMPLATE
    assert tokenizer("the")["input_ids"] == [len(TOKENS) - 1]
    assert tokenizer.convert_ids_to_tokens(tokenizer(chat)["input_ids"])[0] == "<|im_start|>"
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 0)
    assert (done.num_tokens, done.has_chat_template) == (len(TOKENS), True)
    assert tokenizer.model_max_length == 256
    saved = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert saved.keys() & {"local_files_only", "is_local"} == set()
    generation = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert (generation["bos_token_id"], generation["eos_token_id"]) == (1, 2)


def test_conversion_into_an_empty_folder_fills_it(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    convert_gguf(write_gguf(tmp_path / "m.gguf", tiny_llama()), tmp_path / "out", dtype=torch.bfloat16)
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gguf", "out"]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_conversion_to_something_that_is_there_is_refused_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama())
    out = tmp_path / "out"
    mine = out / "mine.txt" if kind == "folder" else out
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(WeightsUnusable, match="there already"):
        convert_gguf(path, out, dtype=torch.bfloat16)
    assert mine.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gguf", "out"]


def test_conversion_whose_result_computes_something_else_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_with_one_wrong(folder: Path, entries: Sequence[TensorEntry]) -> list[WrittenFile]:
        return write_tensors(folder, [spoiled(entry) for entry in entries])

    def spoiled(entry: TensorEntry) -> TensorEntry:
        right: Any = entry.read
        is_it = entry.name == "model.layers.1.mlp.up_proj.weight"
        return dataclasses.replace(entry, read=lambda: right() * 1.5) if is_it else entry

    monkeypatch.setattr(gguf, "write_tensors", write_with_one_wrong)
    path = write_gguf(tmp_path / "m.gguf", tiny_llama())
    with pytest.raises(WeightsUnusable, match="logits differ"):
        convert_gguf(path, tmp_path / "out", dtype=torch.bfloat16)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gguf"]


def test_conversion_of_a_file_that_lacks_a_tensor_names_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama(), leave_out="blk.1.ffn_up.weight")
    with pytest.raises(WeightsUnusable, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        convert_gguf(path, tmp_path / "out", dtype=torch.bfloat16)
    assert not (tmp_path / "out").exists()


def test_conversion_of_an_unknown_architecture_names_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama(), architecture="zebra")
    with pytest.raises(UnsupportedModel, match="zebra"):
        convert_gguf(path, tmp_path / "out", dtype=torch.bfloat16)


def test_converted_model_scales_its_positions_as_the_file_says(tmp_path: Path) -> None:
    original = tiny_llama()
    factors = [1.0, 1.5, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    path = write_gguf(tmp_path / "m.gguf", original, rope_factors=factors)
    convert_gguf(path, tmp_path / "out", dtype=torch.float32)
    unscaled = logits(original)
    original.model.rotary_emb.get_buffer("inv_freq").div_(torch.tensor(factors))
    torch.testing.assert_close(logits(load(tmp_path / "out")), logits(original), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(logits(original), unscaled, rtol=1e-3)


@pytest.mark.parametrize(("kind", "rope_type"), [("linear", "linear"), ("yarn", "yarn")])
def test_converted_config_names_the_rule_by_which_the_file_scales(kind: str, rope_type: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama(), rope_rule=(kind, 4.0))
    convert_gguf(path, tmp_path / "out", dtype=torch.float32)
    parameters = json.loads((tmp_path / "out" / "config.json").read_text())["rope_parameters"]
    assert (parameters["rope_type"], parameters["factor"], parameters["rope_theta"]) == (rope_type, 4.0, 10_000.0)
