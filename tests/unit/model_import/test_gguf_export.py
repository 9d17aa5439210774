"""Exports to GGUF: read back by transformers and by our own import, they are the model that was exported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from horizon_app.contracts.export import ExportDtype
from horizon_app.engine.model.export import ExportImpossible, open_checkpoint
from horizon_app.engine.model.gguf import convert_gguf
from horizon_app.engine.model.gguf_export import export_gguf
from horizon_app.engine.model.load_check import check
from tests.support.trained_home import TEMPLATE, write_chat_model

SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 264, "max_position_embeddings": 256, "bos_token_id": 256,
    "eos_token_id": 256,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
FAMILIES: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(tie_word_embeddings=True, **SIZES),
    "llama_untied": LlamaConfig(tie_word_embeddings=False, **SIZES),
    "mistral": MistralConfig(sliding_window=None, **SIZES),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(head_dim=128, tie_word_embeddings=True, **SIZES),
}  # fmt: skip


def checkpoint(config: PreTrainedConfig, folder: Path) -> Path:
    write_chat_model(folder)
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return folder


def export(folder: Path, dtype: ExportDtype) -> Path:
    target = folder.parent / str(dtype)
    target.mkdir()
    (written,), compared = export_gguf(open_checkpoint(folder), target, dtype, lambda _: None)
    assert compared == len(load_file(folder / "model.safetensors"))
    return target / written.name


@pytest.mark.parametrize("dtype", [ExportDtype.FP16, ExportDtype.Q8_0])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_gguf_loaded_by_transformers_is_the_model(family: str, dtype: ExportDtype, tmp_path: Path) -> None:
    """Names, shapes and the order of rows that are rotated: a wrong one makes a tensor unlike."""
    folder = checkpoint(FAMILIES[family], tmp_path / "model")
    path = export(folder, dtype)
    assert check(path.parent, path.name, str(folder))["wrong"] == []
    loaded: Any = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    plain: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.arange(40).unsqueeze(0)
    with torch.no_grad():
        expected, found = plain(ids).logits, loaded(ids).logits
    difference = float((found - expected).square().mean().sqrt() / expected.std())
    assert difference < (2e-3 if dtype is ExportDtype.FP16 else 3e-2)


def test_gguf_has_the_tokenizer_and_the_chat_template(tmp_path: Path) -> None:
    folder = checkpoint(FAMILIES["llama"], tmp_path / "model")
    path = export(folder, ExportDtype.Q8_0)
    auto: Any = AutoTokenizer
    there, here = auto.from_pretrained(path.parent, gguf_file=path.name), auto.from_pretrained(folder)
    text = "the other path<|im_end|> straße 模型"
    assert there(text)["input_ids"] == here(text)["input_ids"]
    assert there.chat_template == TEMPLATE
    assert there.eos_token == here.eos_token


def test_gguf_rounds_each_value_by_half_a_step_of_its_block_at_most(tmp_path: Path) -> None:
    folder = checkpoint(FAMILIES["llama"], tmp_path / "model")
    path = export(folder, ExportDtype.Q8_0)
    loaded: Any = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    for name, meant in load_file(folder / "model.safetensors").items():
        found = loaded.get_parameter(name).detach()
        if meant.dim() == 1:
            assert torch.equal(found, meant), f"{name} is a vector, and vectors are not rounded"
            continue
        step = meant.view(-1, 32).abs().amax(1, keepdim=True) / 127
        # Half a step, and what rounding the step itself to F16 moves at its 127th multiple.
        assert bool(((found - meant).view(-1, 32).abs() <= step * (0.5 + 127 / 2048)).all()), name


def test_gguf_converted_back_by_ourselves_has_the_weights_rounded_to_f16(tmp_path: Path) -> None:
    folder = checkpoint(FAMILIES["llama"], tmp_path / "model")
    convert_gguf(export(folder, ExportDtype.FP16), tmp_path / "back", dtype=torch.float32)
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert set(before) == set(after)
    for name, meant in before.items():
        assert torch.equal(after[name], meant.half().float() if meant.dim() > 1 else meant), name


def test_gguf_of_a_stretched_llama_3_holds_what_its_frequencies_are_divided_by(tmp_path: Path) -> None:
    config = LlamaConfig(rope_parameters=LLAMA3, **SIZES)
    path = export(checkpoint(config, tmp_path / "model"), ExportDtype.FP16)
    (factors,) = [np.array(t.data) for t in GGUFReader(path).tensors if t.name == "rope_freqs.weight"]
    loaded = AutoConfig.from_pretrained(tmp_path / "model")
    stretched, _ = ROPE_INIT_FUNCTIONS["llama3"](loaded, torch.device("cpu"))
    plain = 1.0 / 10_000.0 ** (torch.arange(0, 16, 2) / 16)
    assert factors == pytest.approx((plain / stretched).numpy(), rel=1e-5)
    assert len(set(factors.tolist())) > 2


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (Gemma2Config(head_dim=16, **SIZES), "family gemma2 can't be written as GGUF yet, only llama, mistral, qwen2"),
        (LlamaConfig(attention_bias=True, **SIZES), "llama with biases"),
        (MistralConfig(sliding_window=64, **SIZES), "sliding_window is 64"),
        (
            LlamaConfig(rope_parameters={"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0}, **SIZES),
            "rope_type yarn can't be written",
        ),
    ],
    ids=["gemma2", "biases", "sliding", "yarn"],
)
def test_gguf_of_what_llama_cpp_would_read_otherwise_is_refused(
    config: PreTrainedConfig, says: str, tmp_path: Path
) -> None:
    folder = checkpoint(config, tmp_path / "model")
    with pytest.raises(ExportImpossible, match=says):
        export(folder, ExportDtype.FP16)
    assert list((tmp_path / "fp16").iterdir()) == []
