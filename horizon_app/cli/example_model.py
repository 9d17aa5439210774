"""The starter model: a small Llama with random weights and a tokenizer trained on the corpus, as files in memory.

Made with numpy and the tokenizers library alone: it takes a few seconds, needs no network, and the same corpus gives the
same bytes.
"""

import json
from collections.abc import Iterator
from typing import Any

VOCABULARY = 3072
HIDDEN, INTERMEDIATE, LAYERS, HEADS = 320, 864, 8, 5
LONGEST = 1024
BEGIN, END, PAD = "<|begin|>", "<|end|>", "<|pad|>"
TURN = "<|turn|>"
DEVIATION = 0.02
SEED = 20260101

CHAT_TEMPLATE = (
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- '<|turn|>' + message['role'] + '\\n' }}"
    "{%- if message['role'] == 'assistant' %}"
    "{%- generation %}{{- message['content'] + eos_token }}{%- endgeneration %}"
    "{%- else %}{{- message['content'] + eos_token }}{%- endif %}"
    "{{- '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|turn|>assistant\\n' }}{%- endif %}"
)


def model_files(corpus: str) -> dict[str, bytes]:
    """File name -> content of a Hugging Face checkpoint folder whose tokenizer has learned `corpus`."""
    tokenizer = _train_tokenizer(corpus)
    return {
        "config.json": _json(_config()),
        "generation_config.json": _json(
            {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "do_sample": True, "max_new_tokens": 128}
        ),
        "tokenizer.json": tokenizer.encode(),
        "tokenizer_config.json": _json(
            {
                "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BEGIN, "eos_token": END, "pad_token": PAD,
                "additional_special_tokens": [TURN], "model_max_length": LONGEST, "padding_side": "right",
                "clean_up_tokenization_spaces": False,
            }
        ),
        "chat_template.jinja": CHAT_TEMPLATE.encode(),
        "model.safetensors": _weights(),
    }  # fmt: skip


def _config() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS, "hidden_act": "silu", "max_position_embeddings": LONGEST, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
        "initializer_range": DEVIATION, "use_cache": True, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
        "dtype": "float32",
    }  # fmt: skip


def _train_tokenizer(corpus: str) -> str:
    """The content of tokenizer.json: byte-level BPE, so that any text can be written with it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[BEGIN, END, PAD, TURN], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    tokenizer.train_from_iterator(corpus.splitlines(keepends=True), trainer)
    begin_first = f"{BEGIN} $A"
    tokenizer.post_processor = processors.TemplateProcessing(single=begin_first, special_tokens=[(BEGIN, 0)])
    return tokenizer.to_str(pretty=True)


def _weights() -> bytes:
    import numpy as np
    from safetensors.numpy import save

    rng = np.random.default_rng(SEED)
    tensors = {
        name: np.ones(shape, dtype=np.float32)
        if len(shape) == 1
        else rng.standard_normal(shape, dtype=np.float32) * np.float32(DEVIATION)
        for name, shape in _shapes()
    }
    return save(tensors, metadata={"format": "pt"})


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        inside = f"model.layers.{layer}"
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{inside}.self_attn.{name}.weight", (HIDDEN, HIDDEN)
        yield f"{inside}.mlp.gate_proj.weight", (INTERMEDIATE, HIDDEN)
        yield f"{inside}.mlp.up_proj.weight", (INTERMEDIATE, HIDDEN)
        yield f"{inside}.mlp.down_proj.weight", (HIDDEN, INTERMEDIATE)
        yield f"{inside}.input_layernorm.weight", (HIDDEN,)
        yield f"{inside}.post_attention_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
