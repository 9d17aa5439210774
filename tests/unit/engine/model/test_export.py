"""Exports to safetensors: the tensors that were meant, each once, beside all that a model needs."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from horizon_app.engine.model.export import (
    ExportImpossible,
    compare_safetensors,
    open_checkpoint,
    write_safetensors,
)
from horizon_app.engine.model.load_check import check
from tests.support.tiny_models import write_checkpoint
from tests.support.trained_home import write_chat_model

GIB = 1 << 30


def checkpoint(folder: Path, dtype: torch.dtype = torch.float32, *, tied: bool = True) -> Path:
    """A chat model with random weights, stored as `dtype`."""
    write_chat_model(folder)
    config = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": tied}
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    tensors = {name: tensor.detach().to(dtype) for name, tensor in model.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def export(source: Path, target: Path, dtype: torch.dtype, shard_bytes: int = GIB) -> Path:
    target.mkdir()
    opened = open_checkpoint(source)
    write_safetensors(opened, target, dtype, shard_bytes=shard_bytes, on_stage=lambda _: None)
    assert compare_safetensors(opened, target, dtype) == len(opened.names)
    return target


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_export_holds_every_tensor_in_the_dtype_and_says_so(dtype: torch.dtype, tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "source")
    target = export(source, tmp_path / "target", dtype)
    before, after = load_file(source / "model.safetensors"), load_file(target / "model.safetensors")
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name].to(dtype)) for name in before)
    config = json.loads((target / "config.json").read_text())
    assert config["dtype"] == str(dtype).removeprefix("torch.")
    found = check(target)
    assert (found["wrong"], found["finite"], found["dtype"]) == ([], True, str(dtype))


def test_export_takes_all_companions_byte_for_byte_and_nothing_of_the_state(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "source")
    for name in ("state.json", "spec.json", "manifest.json", "horizon_export.json"):
        (source / name).write_text("{}")
    target = export(source, tmp_path / "target", torch.bfloat16)
    names = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert names == {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
        "generation_config.json", "LICENSE",
    }  # fmt: skip
    for name in names - {"config.json", "model.safetensors"}:
        assert (target / name).read_bytes() == (source / name).read_bytes()


def test_export_of_a_tied_model_has_one_copy_and_an_untied_one_both(tmp_path: Path) -> None:
    tied = export(checkpoint(tmp_path / "tied"), tmp_path / "a", torch.float32)
    assert "lm_head.weight" not in load_file(tied / "model.safetensors")
    untied = export(checkpoint(tmp_path / "untied", tied=False), tmp_path / "b", torch.float32)
    assert "lm_head.weight" in load_file(untied / "model.safetensors")


def test_export_drops_the_second_copy_of_a_tied_head_and_writes_the_flag(tmp_path: Path) -> None:
    """GPT-2's config says nothing of the tie, which its class has by default."""
    source = write_checkpoint("gpt2", tmp_path / "source")
    tensors = load_file(source / "model.safetensors")
    save_file({**tensors, "lm_head.weight": tensors["transformer.wte.weight"].clone()}, source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    config.pop("tie_word_embeddings", None)
    (source / "config.json").write_text(json.dumps(config))
    target = export(source, tmp_path / "target", torch.float32)
    assert set(load_file(target / "model.safetensors")) == set(tensors)
    assert json.loads((target / "config.json").read_text())["tie_word_embeddings"] is True


def test_export_in_shards_keeps_to_their_size_and_is_one_model(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "source")
    target = export(source, tmp_path / "target", torch.float32, shard_bytes=150_000)
    shards = sorted(target.glob("model-*.safetensors"))
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert len(shards) > 3
    assert set(index["weight_map"].values()) == {path.name for path in shards}
    assert all(sum(t.nbytes for t in load_file(path).values()) <= 150_000 for path in shards)
    merged = {name: tensor for path in shards for name, tensor in load_file(path).items()}
    assert all(torch.equal(merged[name], tensor) for name, tensor in load_file(source / "model.safetensors").items())
    assert check(target)["wrong"] == []


class Damage(NamedTuple):
    value: float
    dtype: torch.dtype
    says: str


@pytest.mark.parametrize(
    "damage",
    [
        Damage(
            1e5, torch.float16, r"model\.norm\.weight holds 100000, but torch\.float16 ends at 65504; export as bf16"
        ),
        Damage(float("nan"), torch.bfloat16, r"model\.norm\.weight holds values that are NaN or infinite"),
        Damage(float("inf"), torch.float32, r"model\.norm\.weight holds values that are NaN or infinite"),
    ],
)
def test_export_of_values_that_the_dtype_does_not_hold_is_refused_by_name(damage: Damage, tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "source")
    tensors = load_file(source / "model.safetensors")
    tensors["model.norm.weight"][3] = damage.value
    save_file(tensors, source / "model.safetensors")
    with pytest.raises(ExportImpossible, match=damage.says):
        export(source, tmp_path / "target", damage.dtype)


def test_export_that_is_read_back_otherwise_is_refused_by_name(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "source")
    target = export(source, tmp_path / "target", torch.bfloat16)
    content = bytearray((target / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (target / "model.safetensors").write_bytes(content)
    with pytest.raises(ExportImpossible, match="was read back from model"):
        compare_safetensors(open_checkpoint(source), target, torch.bfloat16)


def test_export_into_a_volume_that_is_too_full_is_refused_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = SimpleNamespace(total=100, used=50, free=50)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(ExportImpossible, match=r"the export takes 37\d[.\d]* KiB, but .* has 50 B free"):
        export(checkpoint(tmp_path / "source"), tmp_path / "target", torch.bfloat16)
    assert list((tmp_path / "target").iterdir()) == []


def test_export_brings_the_template_that_the_run_chose(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "source")
    (source / "chat_template.jinja").unlink()
    (tmp_path / "target").mkdir()
    opened = open_checkpoint(source, chat_template="{{ messages[0].content }}")
    write_safetensors(opened, tmp_path / "target", torch.bfloat16, shard_bytes=GIB, on_stage=lambda _: None)
    assert (tmp_path / "target" / "chat_template.jinja").read_text() == "{{ messages[0].content }}"
