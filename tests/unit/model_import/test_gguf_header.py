import struct
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.model.gguf_header import read_gguf_header
from tests.support.tiny_gguf import tiny_llama, write_gguf


def test_header_of_a_whole_file_tells_family_encoding_and_tensors(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama(), encoding=GGMLQuantizationType.Q8_0)
    header = read_gguf_header(path)
    assert (header.architecture, header.encoding) == ("llama", "Q8_0")
    assert header.metadata["llama.block_count"] == 2
    assert header.metadata["tokenizer.ggml.model"] == "gpt2"
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert len(header.tensors) == 2 + 2 * 9
    assert sum(tensor.elements for tensor in header.tensors) == sum(p.numel() for p in tiny_llama().parameters())


def test_header_of_another_file_is_refused_by_its_first_letters(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(WeightsUnusable, match="not a GGUF file"):
        read_gguf_header(path)


def test_header_of_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.touch()
    with pytest.raises(WeightsUnusable, match="not a GGUF file"):
        read_gguf_header(path)


def test_header_of_an_older_version_is_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))
    with pytest.raises(WeightsUnusable, match="version 1"):
        read_gguf_header(path)


def test_header_without_tensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    with pytest.raises(WeightsUnusable, match="no tensors"):
        read_gguf_header(path)


@pytest.mark.parametrize("kept", [6, 30, 2_000, -1])
def test_header_of_a_file_cut_anywhere_is_refused(kept: int, tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf", tiny_llama()).read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[:kept])
    with pytest.raises(WeightsUnusable, match="cut short"):
        read_gguf_header(path)


def test_header_with_an_absurd_length_is_refused_without_taking_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 2**62) + b"general.name")
    with pytest.raises(WeightsUnusable, match="damaged"):
        read_gguf_header(path)


def test_header_with_an_unknown_encoding_names_the_tensor(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    name = b"token_embd.weight"
    tensor = struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 64, 9_999, 0)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tensor + bytes(512))
    with pytest.raises(WeightsUnusable, match=r"token_embd\.weight has the unknown encoding 9999"):
        read_gguf_header(path)
