"""What a model's folder tells, and how it is told that something is wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from horizon_app.control.model_folder import estimate_parameters, read_header, read_model_facts
from tests.support.commands import CONFIG
from tests.support.server import write_safetensors


def model(folder: Path, config: dict[str, Any] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config if config is not None else CONFIG))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_facts_of_a_sharded_model_count_all_shards(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    write_safetensors(folder / "a.safetensors", {"x.weight": (4, 10), "x.bias": (10,)})
    write_safetensors(folder / "b.safetensors", {"y.weight": (3, 20)})
    index = {"weight_map": {"x.weight": "a.safetensors", "x.bias": "a.safetensors", "y.weight": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    facts = read_model_facts(folder)
    assert (facts.parameters, facts.layers, facts.dtype) == (110, 2, "f32")
    assert facts.widest_row == ("y.weight", 20)
    assert facts.has_weights and not facts.obstacle and not facts.weights_obstacle


def test_index_that_names_missing_or_strange_shards_is_an_obstacle(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    for name in ("missing.safetensors", "../outside.safetensors"):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
        assert name in read_model_facts(folder).weights_obstacle


def test_file_cut_short_is_told_with_the_numbers(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    path = folder / "model.safetensors"
    write_safetensors(path, {"x": (8, 8)})
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    obstacle = read_model_facts(folder).weights_obstacle
    assert str(len(content) - 10) in obstacle and str(len(content)) in obstacle


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff" * 64, (1 << 40).to_bytes(8, "little") + b"{}", b"\2" + bytes(7) + b"[]"]
)
def test_file_that_is_no_safetensors_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = model(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(content)
    facts = read_model_facts(folder)
    assert facts.weights_obstacle and not facts.has_weights


def test_header_without_tensors_is_fine(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x.safetensors", {})
    assert read_header(tmp_path / "x.safetensors") == {}


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.gguf"])
def test_weights_of_another_kind_are_named_and_not_opened(tmp_path: Path, name: str) -> None:
    folder = model(tmp_path / "m")
    (folder / name).write_bytes(b"cos\nsystem\n(S'touch CANARY'\ntR.")
    assert name in read_model_facts(folder).weights_obstacle


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({}, "no architecture"),
        ({"architectures": ["BertForMaskedLM"]}, "BertForMaskedLM"),
        ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "encoder-decoder"),
        ({"auto_map": {"AutoModelForCausalLM": "evil.Model"}}, "never run"),
    ],
)
def test_config_that_is_no_causal_language_model_is_an_obstacle(
    tmp_path: Path, config: dict[str, Any], word: str
) -> None:
    assert word in read_model_facts(model(tmp_path / "m", config)).obstacle


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_config_that_can_not_be_read_is_an_obstacle(tmp_path: Path, text: str) -> None:
    folder = model(tmp_path / "m")
    (folder / "config.json").write_text(text)
    assert "config.json" in read_model_facts(folder).obstacle


def test_estimates_of_known_models_are_exact() -> None:
    smollm = {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True,
    }  # fmt: skip
    gpt2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}
    assert estimate_parameters(smollm) == 134_515_008
    assert estimate_parameters(gpt2) == 124_439_808
    assert estimate_parameters({**smollm, "num_local_experts": 8}) is None
    assert estimate_parameters({}) is None
