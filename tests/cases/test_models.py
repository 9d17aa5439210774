"""Checkpoints that people brought to other tools: each loads right, or is refused by field, file or tensor."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from horizon_app.cli.main import app
from horizon_app.engine.errors import EngineError
from horizon_app.engine.model.discovery import build_meta, load_config
from tests.support.engines import running, train, weights_of
from tests.support.model_cases import INPUTS, ModelServer, OneRow, inspected, model_server, why_not

SMALL: dict[str, Any] = {"offload": {"param_block_size": "16KiB", "max_gpu_blocks": 4}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with model_server(tmp_path_factory.mktemp("server") / "home") as server:
        yield server


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """What the engine has of a checkpoint."""
    with running(folder, **SMALL) as engine:
        return weights_of(engine)


def one_step(folder: Path, *, learning_rate: float = 1e-3) -> float:
    """The loss of one step on one row."""
    text = json.loads((INPUTS / "B09" / "row_a.jsonl").read_text())
    return loss_of(folder, text, learning_rate)


def loss_of(folder: Path, row: dict[str, str], learning_rate: float) -> float:
    source = OneRow(folder, row["prompt"], row["completion"])
    training = {"global_batch_size": 1, "learning_rate": learning_rate, "warmup_steps": 0, "schedule": "constant"}
    length = {"path": "unused", "sequence_length": source.ids.shape[1]}
    with running(folder, training=training, data=length, **SMALL) as engine:
        return train(engine, source, 1)[0]["train/loss"]


def assert_refused(server: ModelServer, folder: Path, *words: str) -> None:
    """Before any run, by the command line and by the server alike."""
    for told in (why_not(folder), server.refusal(folder), server.listed(folder)["reason"]):
        assert all(word in told for word in words), told


def assert_accepted(server: ModelServer, folder: Path) -> None:
    assert why_not(folder) == ""
    assert server.refusal(folder) == ""
    assert server.listed(folder)["trainable"]


# -- B01: tied embeddings


@pytest.mark.parametrize(
    ("name", "tied"), [("tied", True), ("untied", False), ("tied-stored-twice", True), ("tie-flag-absent", False)]
)
def test_tied_and_untied_heads_load_and_count_once_or_twice(name: str, tied: bool, server: ModelServer) -> None:
    folder = INPUTS / "B01" / name
    assert_accepted(server, folder)
    found = inspected(folder)
    stored = load_file(folder / "model.safetensors")
    embedding = stored["model.embed_tokens.weight"]
    others = sum(
        tensor.numel() for key, tensor in stored.items() if key not in ("model.embed_tokens.weight", "lm_head.weight")
    )
    assert found["tied"] is tied
    assert found["parameters"] == others + embedding.numel() * (1 if tied else 2)
    loaded = weights(folder)
    assert torch.equal(loaded["lm_head.weight"], stored.get("lm_head.weight", embedding))
    assert ("model.embed_tokens.weight" in loaded) is not tied


# -- B03: shards


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing-shard", ["model-00002-of-00003.safetensors"]),
        ("stale-index", ["model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors"]),
        ("tensor-not-in-shard", ["model.norm.weight", "model-00001-of-00002.safetensors"]),
    ],
)
def test_shards_that_are_not_there_are_named(name: str, words: list[str], server: ModelServer) -> None:
    folder = INPUTS / "B03" / name
    assert_refused(server, folder, *words)
    with pytest.raises(EngineError, match=words[0]), running(folder):
        pass


def test_stray_file_beside_shards_is_not_mixed_in(server: ModelServer) -> None:
    folder = INPUTS / "B03" / "stray-file"
    assert_accepted(server, folder)
    shards = {name: tensor for path in folder.glob("model-*.safetensors") for name, tensor in load_file(path).items()}
    stray = load_file(folder / "model.safetensors")
    loaded = weights(folder)
    assert loaded.keys() == shards.keys()
    assert all(torch.equal(loaded[name], shards[name]) for name in shards)
    assert any(not torch.equal(stray[name], shards[name]) for name in stray)


# -- B05: scaled rotary positions

FREQUENCIES: dict[str, Any] = json.loads((INPUTS / "B05" / "expected_inv_freq.json").read_text())


@pytest.mark.parametrize("name", [name for name, value in FREQUENCIES.items() if isinstance(value, list)])
def test_rotary_frequencies_are_those_of_the_config(name: str, server: ModelServer) -> None:
    folder = INPUTS / "B05" / name
    buffers = dict(build_meta(load_config(folder)).named_buffers())
    found = next(buffer for key, buffer in buffers.items() if key.endswith("rotary_emb.inv_freq"))
    torch.testing.assert_close(found, torch.tensor(FREQUENCIES[name]), rtol=1e-6, atol=0)
    assert server.refusal(folder) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unknown", ["rope_scaling.rope_type", "spiral"]),
        ("llama3-missing-field", ["rope_scaling.low_freq_factor", "rope_scaling.high_freq_factor"]),
        ("factor-is-text", ["rope_scaling.factor", "'4'"]),
    ],
)
def test_rotary_scaling_that_is_not_understood_is_refused_by_field(
    name: str, words: list[str], server: ModelServer
) -> None:
    assert_refused(server, INPUTS / "B05" / name, *words)
    with pytest.raises(EngineError, match=words[0]), running(INPUTS / "B05" / name):
        pass


@pytest.mark.parametrize("name", ["yarn", "dynamic", "longrope"])
def test_rotary_scaling_that_transformers_knows_changes_the_frequencies(name: str, server: ModelServer) -> None:
    folder = INPUTS / "B05" / name
    assert_accepted(server, folder)
    rotary = next(m for m in build_meta(load_config(folder)).modules() if type(m).__name__.endswith("RotaryEmbedding"))
    plain = torch.tensor(FREQUENCIES["none"])
    if name == "yarn":
        assert not torch.allclose(rotary.get_buffer("inv_freq"), plain)
    else:  # both change with the length of the text: past the original length
        positions = torch.arange(1024).unsqueeze(0)
        rotary(torch.zeros(1), positions)
        assert not torch.allclose(rotary.get_buffer("inv_freq"), plain)


# -- B06: tokenizer and embedding


def test_tokenizer_with_more_tokens_than_the_embedding_has_rows_is_refused_with_both(server: ModelServer) -> None:
    assert_refused(server, INPUTS / "B06" / "tokenizer-too-big", "278", "277")


def test_embedding_with_more_rows_than_tokens_is_fine(server: ModelServer) -> None:
    assert_accepted(server, INPUTS / "B06" / "padded-rows")


def test_config_that_promises_other_rows_is_refused_with_both_numbers(server: ModelServer) -> None:
    assert_refused(server, INPUTS / "B06" / "config-disagrees", "288", "300", "vocab_size")


def test_padding_token_outside_of_the_embedding_is_refused_by_field(server: ModelServer) -> None:
    assert_refused(server, INPUTS / "B06" / "pad-id-outside", "pad_token_id", "5000")


# -- B07: heads


@pytest.mark.parametrize(
    ("name", "rows"), [("wide-heads", 64), ("narrow-heads", 16), ("one-kv-head", 32), ("all-kv-heads", 32)]
)
def test_heads_of_any_width_and_grouping_train(name: str, rows: int, server: ModelServer) -> None:
    folder = INPUTS / "B07" / name
    assert_accepted(server, folder)
    stored = load_file(folder / "model.safetensors")
    loaded = weights(folder)
    assert loaded["model.layers.0.self_attn.q_proj.weight"].shape == (rows, 32)
    assert {name: tensor.shape for name, tensor in loaded.items()} == {n: tensor.shape for n, tensor in stored.items()}
    assert one_step(folder) > 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kv-not-divisor", ["num_attention_heads is 4", "num_key_value_heads 3"]),
        ("head-dim-wrong", ["[64, 32]", "[32, 32]", "head_dim 16"]),
    ],
)
def test_heads_that_do_not_fit_are_refused_with_the_numbers(name: str, words: list[str], server: ModelServer) -> None:
    assert_refused(server, INPUTS / "B07" / name, *words)


# -- B09: windows

ROWS = [json.loads((INPUTS / "B09" / f"row_{name}.jsonl").read_text()) for name in "ab"]


@pytest.mark.parametrize(
    ("name", "sees_the_first_byte"), [("window-8", False), ("window-none", True), ("window-flag-off", True)]
)
def test_window_of_the_config_is_in_the_mask(name: str, sees_the_first_byte: bool, server: ModelServer) -> None:
    folder = INPUTS / "B09" / name
    assert_accepted(server, folder)
    losses = [loss_of(folder, row, learning_rate=0.0) for row in ROWS]
    assert (abs(losses[0] - losses[1]) > 1e-3) if sees_the_first_byte else losses[0] == losses[1]


def test_hybrid_layers_train(server: ModelServer) -> None:
    assert_accepted(server, INPUTS / "B09" / "hybrid-layers")
    assert one_step(INPUTS / "B09" / "hybrid-layers") > 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("window-zero", ["sliding_window is 0"]),
        ("layer-types-too-short", ["layer_types has 1", "num_hidden_layers is 2"]),
    ],
)
def test_windows_that_make_no_sense_are_refused(name: str, words: list[str], server: ModelServer) -> None:
    assert_refused(server, INPUTS / "B09" / name, *words)


# -- B10: configs


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken-config", ["config.json", "model_type"]),
        ("no-model-type", ["model_type"]),
        ("unknown-type", ["model_type brandnew"]),
        ("encoder", ["BertForMaskedLM", "model_type bert"]),
        ("wrapper-of-llama", ["model_type something", "text_config is a llama"]),
    ],
)
def test_config_that_no_model_fits_gets_a_verdict_by_field(name: str, words: list[str], server: ModelServer) -> None:
    assert_refused(server, INPUTS / "B10" / name, *words)


def test_nested_config_of_which_no_model_can_be_made_says_what_is_wrong_with_it() -> None:
    """Its vision part can't be: 16 wide, with 12 heads."""
    found = inspected(INPUTS / "B10" / "nested-text-config")
    assert (found["trainable"], found["model_type"]) == (False, "gemma3")
    assert "embed_dim must be divisible by num_heads" in "; ".join(found["obstacles"])


def test_experts_stored_one_by_one_train(server: ModelServer) -> None:
    folder = INPUTS / "B10" / "moe"
    assert_accepted(server, folder)
    stored = load_file(folder / "model.safetensors")
    fused = weights(folder)["model.layers.1.mlp.experts.gate_up_proj"]
    for expert in range(4):
        halves = [stored[f"model.layers.1.block_sparse_moe.experts.{expert}.{part}.weight"] for part in ("w1", "w3")]
        assert torch.equal(fused[expert], torch.cat(halves))
    assert one_step(folder) > 0


# -- B11: code in models


@pytest.fixture
def no_canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing may have run that a model brought along."""
    monkeypatch.chdir(tmp_path)
    yield
    places = (tmp_path, INPUTS / "B11")
    assert [path for place in places for path in place.rglob("CANARY_*")] == []


@pytest.mark.usefixtures("no_canary")
def test_pickled_weights_are_refused_with_the_way_to_convert_and_not_opened(
    server: ModelServer, tmp_path: Path
) -> None:
    folder = INPUTS / "B11" / "only-bin"
    assert_refused(server, folder, "pytorch_model.bin", "horizon model convert")
    done = CliRunner().invoke(app, ["model", "convert", str(folder), str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "pytorch_model.bin holds something else than tensors" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_canary")
def test_safetensors_beside_pickled_weights_are_taken(server: ModelServer) -> None:
    folder = INPUTS / "B11" / "both-kinds"
    assert_accepted(server, folder)
    stored = load_file(folder / "model.safetensors")
    assert all(torch.equal(weight, stored[name]) for name, weight in weights(folder).items())


@pytest.mark.usefixtures("no_canary")
def test_code_of_the_models_folder_is_refused(server: ModelServer) -> None:
    assert_refused(server, INPUTS / "B11" / "remote-code", "auto_map", "never run")
    with pytest.raises(EngineError, match="canary"), running(INPUTS / "B11" / "remote-code"):
        pass


@pytest.mark.usefixtures("no_canary")
@pytest.mark.parametrize("name", ["remote-tokenizer", "template-code"])
def test_code_of_tokenizer_or_template_does_not_run_when_looked_at(name: str, server: ModelServer) -> None:
    inspected(INPUTS / "B11" / name)
    assert "error" not in server.listed(INPUTS / "B11" / name)


# -- B13: quantised weights


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fp8-config-removed", ["weight_scale_inv", "F8_E4M3"]),
        ("fp8-with-config", ["quantization_config", "fp8"]),
        ("int4-config", ["quantization_config", "gptq"]),
    ],
)
def test_quantised_weights_are_never_taken_for_plain_numbers(name: str, words: list[str], server: ModelServer) -> None:
    folder = INPUTS / "B13" / name
    assert_refused(server, folder, *words)
    with pytest.raises(EngineError, match=words[0]), running(folder):
        pass
