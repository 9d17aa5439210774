"""Tiny models of many families, each with what is peculiar about its family."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    DeepseekV3Config,
    Gemma2Config,
    Gemma3Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Olmo2Config,
    OPTConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    Qwen3NextConfig,
)

from tests.support.tiny_models import VOCABULARY

SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": None, "bos_token_id": None,
    "eos_token_id": None,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
TIED: dict[str, Any] = {"tie_word_embeddings": True}
UNTIED: dict[str, Any] = {"tie_word_embeddings": False}
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
NARROW: dict[str, Any] = {"head_dim": 16}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
ROUTER_LOSS: dict[str, Any] = {"output_router_logits": True, "router_aux_loss_coef": 0.5}

FAMILIES: dict[str, PreTrainedConfig] = {
    "llama3 (scaled rope, untied)": LlamaConfig(rope_parameters=LLAMA3_ROPE, **GROUPED, **UNTIED),
    "llama3 (scaled rope, tied)": LlamaConfig(rope_parameters=LLAMA3_ROPE, **GROUPED, **TIED),
    "qwen2 (biases)": Qwen2Config(**GROUPED, **UNTIED),
    "qwen3 (normed queries, tied)": Qwen3Config(head_dim=24, **GROUPED, **TIED),
    "mistral (sliding window)": MistralConfig(sliding_window=8, **GROUPED, **UNTIED),
    "gemma2 (alternating, soft caps, scaled)": Gemma2Config(sliding_window=8, **NARROW, **GROUPED, **TIED),
    "gemma3 (alternating, scaled)": Gemma3TextConfig(
        **NARROW, sliding_window=8, layer_types=["sliding_attention", "full_attention"], **GROUPED, **TIED
    ),
    "phi3 (fused qkv)": Phi3Config(**GROUPED, **UNTIED),
    "gpt2 (Conv1D, learned positions)": GPT2Config(
        n_embd=64, n_layer=2, n_head=4, n_positions=64, vocab_size=VOCABULARY, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0,
    ),
    "gpt_neox (parallel residual)": GPTNeoXConfig(**SIZES, **UNTIED),
    "opt (shifted positions)": OPTConfig(
        ffn_dim=96, word_embed_proj_dim=64, dropout=0.0, vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=64, pad_token_id=1,
    ),
    "olmo2 (norms after)": Olmo2Config(**GROUPED, **UNTIED),
    "granite (multipliers)": GraniteConfig(
        logits_scaling=3.0, embedding_multiplier=2.0, residual_multiplier=0.5, **GROUPED, **UNTIED
    ),
    "cohere (scaled logits)": CohereConfig(**GROUPED, **TIED),
    "mixtral (fused experts)": MixtralConfig(num_local_experts=4, **GROUPED, **UNTIED),
    "mixtral (router loss)": MixtralConfig(num_local_experts=4, **ROUTER_LOSS, **GROUPED, **UNTIED),
    "qwen3_moe (fused experts)": Qwen3MoeConfig(**NARROW, **EXPERTS, **GROUPED, **UNTIED),
    "qwen3_moe (router loss, tied)": Qwen3MoeConfig(**NARROW, **EXPERTS, **ROUTER_LOSS, **GROUPED, **TIED),
    "qwen3_next (hybrid layers)": Qwen3NextConfig(
        head_dim=16, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8,
        shared_expert_intermediate_size=48, **EXPERTS, **GROUPED, **UNTIED,
    ),
    "gpt_oss (sinks, biased experts)": GptOssConfig(
        head_dim=16, sliding_window=8, num_local_experts=4, num_experts_per_tok=2,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        **GROUPED, **UNTIED,
    ),
    "deepseek_v3 (latent attention)": DeepseekV3Config(
        q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=4,
        num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=48, first_k_dense_replace=1, **SIZES,
        num_key_value_heads=4, **UNTIED,
    ),
    "gemma3 (nested text_config)": Gemma3Config(
        text_config={
            "head_dim": 16, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"], **GROUPED,
        },
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 28, "patch_size": 14,
        },
        mm_tokens_per_image=4, boi_token_index=VOCABULARY - 3, eoi_token_index=VOCABULARY - 2,
        image_token_index=VOCABULARY - 1, **TIED,
    ),
}  # fmt: skip


def write_family(name: str, folder: Path) -> Path:
    """A checkpoint with random weights in fp32, biases and norms among them, as transformers saves it."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(FAMILIES[name], dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(folder)
    return folder
