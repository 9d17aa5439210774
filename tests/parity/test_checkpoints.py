"""Weights in and out: a saved model is Hugging Face's with the engine's masters; random ones are the family's own."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedModel

from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.memory.planes import PlaneName
from horizon_app.engine.model import weights
from horizon_app.engine.model.tensor_writer import write_tensors
from horizon_app.engine.training import checkpoint
from tests.support.engines import least_host_memory, running, train, weights_of
from tests.support.tiny_models import CONFIGS, VOCABULARY, RandomBatches, write_checkpoint

SOURCE = RandomBatches()
# tied, tied, untied: the head's weight is stored once, under the embedding's name, where it is tied.
TIED = {"llama": False, "qwen3": True, "gpt2": True}
WIDE: dict[str, Any] = {
    "llama": LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        vocab_size=VOCABULARY, max_position_embeddings=64, initializer_range=0.03, tie_word_embeddings=False,
    ),
    "tied llama": LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        vocab_size=VOCABULARY, max_position_embeddings=64, initializer_range=0.03, tie_word_embeddings=True,
    ),
    "gpt2": GPT2Config(n_embd=128, n_layer=3, n_head=4, vocab_size=VOCABULARY, n_positions=64),
}  # fmt: skip


def logits_of(model: PreTrainedModel) -> torch.Tensor:
    ids = torch.from_numpy(SOURCE.batch(99).input_ids)
    with torch.no_grad():
        return model.eval()(input_ids=ids, use_cache=False).logits


def with_masters(folder: Path, masters: dict[str, torch.Tensor]) -> PreTrainedModel:
    """The model of a folder's config, its parameters replaced by the engine's masters."""
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    state = model.state_dict()
    with torch.no_grad():
        for name, weight in masters.items():
            state[name].copy_(weight)  # a tied weight is the same memory under both names
    return model


@pytest.mark.parametrize("paged", [False, True], ids=["ram", "paged"])
@pytest.mark.parametrize("family", list(CONFIGS))
def test_save_model_loads_in_transformers_with_the_engines_masters(family: str, paged: bool, tmp_path: Path) -> None:
    folder, saved = write_checkpoint(family, tmp_path / "model"), tmp_path / "saved"
    saved.mkdir()
    offload: dict[str, Any] = {"param_block_size": "16KiB"}
    if paged:
        offload["host_memory"] = least_host_memory(folder, offload=offload)
    with running(folder, disk_dir=tmp_path / "disk", offload=offload) as engine:
        assert (PlaneName.MASTER.value in engine.plan_facts["planes_on_disk"]) == paged
        train(engine, SOURCE, 2)
        written = engine.snapshot().write(saved)
        masters = weights_of(engine)
    loaded = AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32)
    assert torch.equal(logits_of(loaded), logits_of(with_masters(folder, masters)))
    assert not torch.equal(logits_of(loaded), logits_of(AutoModelForCausalLM.from_pretrained(folder)))
    files = {str(path.relative_to(saved)): path for path in saved.rglob("*") if path.is_file()}
    assert {name: file.bytes for name, file in written.files.items()} == {
        name: path.stat().st_size for name, path in files.items()
    }
    head = loaded.get_output_embeddings()
    assert head is not None
    assert (loaded.get_input_embeddings().weight is head.weight) == TIED[family]
    names = set(weights.tensor_files(saved))
    assert names == set(weights.tensor_files(folder)), "the same tensors as the checkpoint it came from"


def test_save_model_that_is_trained_on_goes_on_from_the_same_weights(tmp_path: Path) -> None:
    folder, saved = write_checkpoint("qwen3", tmp_path / "model"), tmp_path / "saved"
    saved.mkdir()
    with running(folder) as engine:
        train(engine, SOURCE, 2)
        engine.snapshot().write(saved)
        masters = weights_of(engine)
    with running(saved) as engine:
        again = weights_of(engine)
    assert again.keys() == masters.keys()
    assert all(torch.equal(again[name], masters[name]) for name in masters)


def test_save_model_larger_than_a_shard_is_split_with_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, saved = write_checkpoint("llama", tmp_path / "model"), tmp_path / "saved"
    saved.mkdir()
    monkeypatch.setattr(checkpoint, "write_tensors", partial(write_tensors, shard_bytes=100_000))
    with running(folder) as engine:
        masters = weights_of(engine)
        engine.snapshot().write(saved)
    shards = sorted(path.name for path in saved.glob("*.safetensors"))
    assert len(shards) > 2
    assert set(json.loads((saved / weights.INDEX).read_text())["weight_map"].values()) == set(shards)
    loaded = AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32).state_dict()
    assert all(torch.equal(loaded[name], master) for name, master in masters.items())
    with running(saved) as engine:
        assert all(torch.equal(weight, masters[name]) for name, weight in weights_of(engine).items())


def test_save_model_of_a_bf16_checkpoint_stays_bf16(tmp_path: Path) -> None:
    folder, saved = tmp_path / "model", tmp_path / "saved"
    saved.mkdir()
    AutoModelForCausalLM.from_config(CONFIGS["llama"](), dtype=torch.bfloat16).save_pretrained(folder)
    with running(folder) as engine:
        train(engine, SOURCE, 1)
        engine.snapshot().write(saved)
        masters = weights_of(engine)
    loaded = AutoModelForCausalLM.from_pretrained(saved, dtype="auto")
    assert loaded.dtype is torch.bfloat16
    assert all(torch.equal(loaded.state_dict()[name], master.bfloat16()) for name, master in masters.items())


def test_weights_of_a_bare_base_model_are_found_without_their_prefix(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS["gpt2"](), dtype=torch.float32)
    model.base_model.save_pretrained(tmp_path)
    with running(tmp_path) as engine:
        state = model.state_dict()
        assert all(torch.equal(weight, state[name]) for name, weight in weights_of(engine).items())


def test_weights_of_another_shape_are_refused_with_both_shapes(tmp_path: Path) -> None:
    write_checkpoint("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 192}))
    with pytest.raises(WeightsUnusable, match=r"\[176, 64\].*\[192, 64\]|\[64, 176\].*\[64, 192\]"), running(tmp_path):
        pass


def test_weights_that_are_missing_are_refused_by_name(tmp_path: Path) -> None:
    write_checkpoint("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with (
        pytest.raises(WeightsUnusable, match=r"9 of 30 tensors are missing, first model\.layers\.2\."),
        running(tmp_path),
    ):
        pass


@pytest.mark.parametrize("content", [None, b"", b"\x10\0\0\0\0\0\0\0{broken"])
def test_weights_that_can_not_be_read_are_refused_with_the_path(tmp_path: Path, content: bytes | None) -> None:
    CONFIGS["llama"]().save_pretrained(tmp_path)
    if content is not None:
        (tmp_path / weights.SINGLE).write_bytes(content)
    with pytest.raises(WeightsUnusable, match=str(tmp_path)), running(tmp_path):
        pass


def random_weights(folder: Path, seed: int) -> dict[str, torch.Tensor]:
    with running(folder, model={"init": "random"}, training={"seed": seed}) as engine:
        return weights_of(engine)


@pytest.mark.parametrize("family", list(WIDE))
def test_random_init_has_the_statistics_of_transformers_own(family: str, tmp_path: Path) -> None:
    WIDE[family].save_pretrained(tmp_path)
    torch.manual_seed(3)
    own = AutoModelForCausalLM.from_config(WIDE[family], dtype=torch.float32).state_dict()
    for name, weight in random_weights(tmp_path, seed=1).items():
        expected = own[name]
        noise = 6 * float(expected.std()) / expected.numel() ** 0.5 if expected.numel() > 1 else 0.0
        assert float(weight.mean()) == pytest.approx(float(expected.mean()), abs=noise + 1e-7), name
        assert float(weight.std()) == pytest.approx(float(expected.std()), rel=0.1, abs=1e-7), name
        assert float(weight.abs().max()) <= 2 * float(expected.abs().max()) + 1e-7, name


def test_random_init_same_seed_gives_the_same_weights_and_another_does_not(tmp_path: Path) -> None:
    WIDE["llama"].save_pretrained(tmp_path)
    first, again, other = (random_weights(tmp_path, seed) for seed in (4, 4, 5))
    assert all(torch.equal(first[name], again[name]) for name in first)
    matrices = [name for name, weight in first.items() if weight.dim() > 1]
    assert not any(torch.equal(first[name], other[name]) for name in matrices)
    assert len({float(first[name].flatten()[0]) for name in matrices}) == len(matrices), "no two share their draws"
