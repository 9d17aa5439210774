"""A tiny Llama as a GGUF file, written as llama.cpp's converter writes it, beside the model that it was made of."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, RopeScalingType
from gguf.quants import quantize
from numpy.typing import NDArray
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

HEADS, KV_HEADS, LAYERS, WIDTH = 4, 2, 2, 64
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOKENS = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "the"]
_NORMAL, _CONTROL = 1, 3


def tiny_llama(*, tied: bool = True, seed: int = 0) -> LlamaForCausalLM:
    """A Llama with weights large enough that its logits tell one wrong tensor."""
    config = LlamaConfig(
        hidden_size=WIDTH, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, vocab_size=len(TOKENS), max_position_embeddings=256, tie_word_embeddings=tied,
        rms_norm_eps=1e-5,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def write_gguf(
    path: Path, model: LlamaForCausalLM, *, encoding: GGMLQuantizationType = GGMLQuantizationType.F32,
    architecture: str = "llama", leave_out: str = "", rope_factors: Sequence[float] = (),
    rope_rule: tuple[str, float] | None = None,
) -> Path:  # fmt: skip
    """Write `model` with a byte tokenizer and a chat template; matrices in `encoding`, norms in fp32."""
    writer = GGUFWriter(path, architecture)
    config = model.config
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([_CONTROL if token in SPECIAL else _NORMAL for token in TOKENS])
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in _tensors(model):
        if name != leave_out:
            kind = encoding if tensor.ndim > 1 else GGMLQuantizationType.F32
            writer.add_tensor(name, quantize(tensor, kind), raw_dtype=kind)
    if rope_factors:
        writer.add_tensor("rope_freqs.weight", np.array(rope_factors, dtype=np.float32))
    if rope_rule:
        writer.add_rope_scaling_type(RopeScalingType(rope_rule[0]))
        writer.add_rope_scaling_factor(rope_rule[1])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def _tensors(model: LlamaForCausalLM) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for name, parameter in model.named_parameters():
        tensor = parameter.detach().numpy()
        module = name.removesuffix(".weight")
        if module in _OUTSIDE:
            yield f"{_OUTSIDE[module]}.weight", tensor
            continue
        _, _, layer, inside = module.split(".", 3)
        heads = {"self_attn.q_proj": HEADS, "self_attn.k_proj": KV_HEADS}.get(inside)
        yield f"blk.{layer}.{_NAMES[inside]}.weight", tensor if heads is None else _interleaved(tensor, heads)


def _interleaved(tensor: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of each head in llama.cpp's order: the two halves that are rotated together side by side."""
    rows, columns = tensor.shape
    halves = tensor.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))
