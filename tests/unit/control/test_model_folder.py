"""What a model's folder tells, and how it is told that something is wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from horizon_app.control.known_models import causal_models
from horizon_app.control.model_folder import estimate_parameters, read_model_facts
from horizon_app.control.weight_files import read_header
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
        ({}, "no model_type"),
        ({"model_type": "zebra"}, "zebra is no causal language model"),
        ({"model_type": "zebra", "text_config": {"model_type": "llama"}}, "its text_config is a llama"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "BertForMaskedLM"),
        ({"model_type": "bart", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"auto_map": {"AutoModelForCausalLM": "evil.Model"}}, "never run"),
        ({"model_type": "evil", "auto_map": {"AutoModelForCausalLM": "evil.Model"}}, "never run"),
        ({**CONFIG, "num_attention_heads": 4, "num_key_value_heads": 3}, "num_key_value_heads 3"),
        ({**CONFIG, "quantization_config": {"quant_method": "gptq"}}, "gptq"),
        ({**CONFIG, "rope_scaling": {"type": "spiral"}}, "rope_scaling.rope_type is 'spiral'"),
        ({**CONFIG, "rope_scaling": "much"}, "rope_scaling is 'much'"),
        ({**CONFIG, "sliding_window": 0}, "sliding_window is 0"),
        ({**CONFIG, "layer_types": ["full_attention"]}, "layer_types has 1 entries"),
        ({**CONFIG, "pad_token_id": 256}, "pad_token_id is 256"),
        ({"model_type": "gemma3", "text_config": {"sliding_window": 0}}, "text_config.sliding_window is 0"),
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


@pytest.mark.parametrize(
    "changes",
    [
        {"sliding_window": None},
        {"sliding_window": 0, "use_sliding_window": False},
        {"rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": None}},
        {"rope_scaling": {"type": "linear", "factor": 2}},
        {"pad_token_id": -1, "eos_token_id": [1, 256]},
        {"architectures": None},
        {"head_dim": 7},
    ],
)
def test_config_that_is_only_unusual_is_no_obstacle(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert read_model_facts(model(tmp_path / "m", {**CONFIG, **changes})).obstacle == ""


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"model.embed_tokens.weight": (255, 64)}, "has 255 rows, but vocab_size is 256"),
        ({"a.weight_scale_inv": (1, 1), "a.weight": (4, 4)}, "1 tensors belong to quantised weights, first a.weight_"),
        ({"model.layers.0.self_attn.q_proj.weight": (128, 64)}, "head_dim 32 would fit"),
    ],
)
def test_stored_tensors_that_do_not_fit_the_config_are_named(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], words: str
) -> None:
    folder = model(tmp_path / "m")
    write_safetensors(folder / "model.safetensors", shapes)
    assert words in read_model_facts(folder).weights_obstacle


def test_tensor_that_the_index_promises_and_no_shard_holds_is_named_with_its_shard(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    write_safetensors(folder / "a.safetensors", {"x": (4, 10), "stale": (1,)})
    write_safetensors(folder / "b.safetensors", {"stale": (1,), "extra": (3,)})
    index = {"weight_map": {"x": "a.safetensors", "y": "a.safetensors", "stale": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "y in a.safetensors" in read_model_facts(folder).weights_obstacle


def test_largest_token_counts_added_ones_and_follows_the_file(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    for added, largest in (([], 1), ([{"id": 7}], 7)):
        text = json.dumps({"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": added})
        (folder / "tokenizer.json").write_text(text)
        assert read_model_facts(folder).largest_token_id == largest
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": [["a", -1.0], ["b", -2.0]]}}))
    assert read_model_facts(folder).largest_token_id == 1


def test_known_models_are_those_that_transformers_makes_causal_models_of() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    assert causal_models().keys() == MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.keys()
    assert causal_models()["gemma3"] == "Gemma3ForConditionalGeneration"
