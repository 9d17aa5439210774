"""safetensors files written tensor by tensor: the same content that safetensors and transformers read."""

import hashlib
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from horizon_app.engine.model.tensor_writer import TensorEntry, write_tensors

TENSORS = {
    "a": torch.arange(12, dtype=torch.float32).view(3, 4),
    "codes": torch.arange(7, dtype=torch.uint8),
    "half": torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).bfloat16(),
    "nothing": torch.zeros(0, 4),
    "scalar": torch.tensor(3.5),
    "Größe": torch.tensor([True, False, True]),
    "wide": torch.arange(3, dtype=torch.int64),
}


def entry(name: str, tensor: torch.Tensor, read: Callable[[], torch.Tensor] | None = None) -> TensorEntry:
    return TensorEntry(name=name, dtype=tensor.dtype, shape=tuple(tensor.shape), read=read or (lambda: tensor))


ENTRIES = [entry(name, tensor) for name, tensor in TENSORS.items()]


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype is tensor.dtype and torch.equal(found[name], tensor), name


def test_tensors_of_every_width_are_read_back_by_safetensors(tmp_path: Path) -> None:
    (file,) = write_tensors(tmp_path, ENTRIES, shard_bytes=1 << 20)
    path = tmp_path / file.name
    assert file.name == "model.safetensors"
    assert_same(load_file(path), TENSORS)
    assert (file.num_bytes, file.sha256) == (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


def test_tensors_beyond_the_shard_size_are_split_in_order_with_an_index(tmp_path: Path) -> None:
    files = write_tensors(tmp_path, ENTRIES, shard_bytes=48, stem="exp_avg")
    shards = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    index = json.loads((tmp_path / "exp_avg.safetensors.index.json").read_text())
    assert [file.name for file in files] == [*shards, "exp_avg.safetensors.index.json"]
    assert shards[0] == f"exp_avg-00001-of-{len(shards):05}.safetensors"
    assert list(index["weight_map"]) == list(TENSORS)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in TENSORS.values())
    assert_same({name: load_file(tmp_path / shard)[name] for name, shard in index["weight_map"].items()}, TENSORS)
    for file in files:
        assert hashlib.sha256((tmp_path / file.name).read_bytes()).hexdigest() == file.sha256


def test_tensors_are_in_memory_one_at_a_time(tmp_path: Path) -> None:
    made: list[weakref.ref[torch.Tensor]] = []

    def make() -> torch.Tensor:
        assert not any(tensor() is not None for tensor in made), "the tensor before is still held"
        tensor = torch.zeros(4)
        made.append(weakref.ref(tensor))
        return tensor

    write_tensors(tmp_path, [entry(str(i), torch.zeros(4), make) for i in range(5)], shard_bytes=1 << 20)
    assert len(made) == 5


def test_tensors_that_are_not_contiguous_are_written_in_row_order(tmp_path: Path) -> None:
    turned = torch.arange(6.0).view(2, 3).T
    write_tensors(tmp_path, [entry("turned", turned)], shard_bytes=1 << 20)
    assert_same(load_file(tmp_path / "model.safetensors"), {"turned": turned})


def test_files_get_the_permissions_that_any_new_file_gets(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    write_tensors(tmp_path, ENTRIES, shard_bytes=48)
    modes = {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
    assert set(modes.values()) == {modes["other"]}


def test_tensor_in_pieces_is_written_as_one(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(3, 4)
    pieces = TensorEntry(name="w", dtype=whole.dtype, shape=(3, 4), read=lambda: iter([whole[0], whole[1:]]))
    write_tensors(tmp_path, [pieces, entry("after", torch.ones(2))])
    assert_same(load_file(tmp_path / "model.safetensors"), {"w": whole, "after": torch.ones(2)})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (torch.zeros(3), r"w was announced with shape \(2,\) and has \(3,\)"),
        (torch.zeros(2).half(), "w was announced as torch.float32 and is torch.float16"),
        ([torch.zeros(1)], "w was announced with 8 bytes and has 4"),
    ],
)
def test_tensor_other_than_announced_is_named(content: Any, says: str, tmp_path: Path) -> None:
    wrong = TensorEntry(name="w", dtype=torch.float32, shape=(2,), read=lambda: content)
    with pytest.raises(AssertionError, match=says):
        write_tensors(tmp_path, [wrong])
