import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.model.import_weights import Kind, find_source, import_weights
from tests.support.small_model import write_small_model

Tensors = dict[str, torch.Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Config and tokenizer, without weights."""
    return write_small_model(tmp_path / "model")


@pytest.fixture
def tensors(folder: Path) -> Tensors:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32).state_dict()


def assert_converted(folder: Path, tensors: Tensors, **options: Any) -> None:
    out = folder.parent / "out"
    done = import_weights(find_source(folder), out, dtype=None, **options)
    stored = load_file(out / "model.safetensors")
    assert stored.keys() == tensors.keys()
    assert all(torch.equal(stored[name], tensors[name]) for name in tensors)
    assert (done.architecture, done.tensors) == ("LlamaForCausalLM", len(tensors))
    assert (out / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert sorted(path.name for path in folder.parent.iterdir()) == ["model", "out"]


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_weights_become_the_same_safetensors(zipped: bool, folder: Path, tensors: Tensors) -> None:
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    assert_converted(folder, tensors)


def test_pickled_weights_inside_a_training_scripts_table_are_found(folder: Path, tensors: Tensors) -> None:
    torch.save({"state_dict": tensors, "epoch": 3}, folder / "model.pt")
    assert_converted(folder, tensors)


def test_pickled_shards_are_joined_as_their_index_says(folder: Path, tensors: Tensors) -> None:
    names = list(tensors)
    for number, part in enumerate((names[:10], names[10:]), start=1):
        torch.save({name: tensors[name] for name in part}, folder / f"pytorch_model-0000{number}-of-00002.bin")
    weight_map = {name: f"pytorch_model-0000{1 if names.index(name) < 10 else 2}-of-00002.bin" for name in names}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    torch.save({"lr": 1.0}, folder / "training_args.bin")
    assert_converted(folder, tensors)
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(WeightsUnusable, match="pytorch_model-00002-of-00002"):
        find_source(folder)


def test_conversion_to_another_format_casts_and_says_so_in_the_config(folder: Path, tensors: Tensors) -> None:
    torch.save(tensors, folder / "pytorch_model.bin")
    import_weights(find_source(folder), folder.parent / "out", dtype=torch.bfloat16)
    stored = load_file(folder.parent / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    assert json.loads((folder.parent / "out" / "config.json").read_text())["dtype"] == "bfloat16"


def test_sharded_safetensors_become_one_file(folder: Path, tensors: Tensors) -> None:
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    model.load_state_dict(tensors)
    model.save_pretrained(folder, max_shard_size="200KB")
    assert find_source(folder).kind is Kind.SAFETENSORS
    assert len(find_source(folder).files) > 1
    assert_converted(folder, tensors)


def lacking(tensors: Tensors) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if name != "model.layers.2.mlp.up_proj.weight"}


def with_text(tensors: Tensors) -> dict[str, Any]:
    return {**tensors, "note": "hello"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lacking, r"1 of 39 tensors are missing, first model\.layers\.2\.mlp\.up_proj\.weight"),
        (with_text, "no table of tensors: it holds note"),
        (lambda tensors: Path("x"), "holds something else than tensors, and could run code"),
    ],
)
def test_pickled_file_that_is_no_model_is_refused_and_nothing_is_kept(
    change: Callable[[Tensors], Any], words: str, folder: Path, tensors: Tensors
) -> None:
    torch.save(change(tensors), folder / "pytorch_model.bin")
    with pytest.raises(WeightsUnusable, match=words):
        import_weights(find_source(folder), folder.parent / "out", dtype=None)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["model"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["a.gguf", "b.gguf"], r"2 GGUF files \(a\.gguf, b\.gguf\)"),
        (["a.bin", "b.bin"], r"2 pickled files .*name one of them"),
        (["config.json"], "holds no weights"),
    ],
)
def test_finding_in_a_folder_without_exactly_one_model_says_why(files: list[str], words: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(WeightsUnusable, match=words):
        find_source(tmp_path)


def test_finding_in_a_folder_with_one_gguf_file_gives_it(tmp_path: Path) -> None:
    (tmp_path / "readme.md").touch()
    (tmp_path / "m.GGUF").touch()
    assert find_source(tmp_path).files == (tmp_path / "m.GGUF",)


def test_finding_what_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnusable, match="no file or folder"):
        find_source(tmp_path / "nowhere")
