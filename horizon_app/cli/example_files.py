"""What `horizon example` writes: always the same bytes, from the standard library's texts and a fixed seed.

The model is small, and its spec gives it a device far smaller still, so that blocks have to come and go.
"""

import json
import os
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horizon_app.cli.refusals import CommandFailed

VOCABULARY = 4096
HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD = 256, 704, 10, 4, 2, 64
POSITIONS = 1024
SPECIAL = ("<|bos|>", "<|eos|>", "<|pad|>", "<|im_start|>", "<|im_end|>")
BOS, EOS, PAD, _, TURN_END = range(len(SPECIAL))
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_example(folder: Path) -> None:
    """Write the example; equal files stay as they are. Raises CommandFailed rather than change another file."""
    if folder.exists() and not folder.is_dir():
        raise CommandFailed(f"{folder} is a file; name a folder")
    corpus = _corpus()
    content = {
        "model/config.json": _json(_config()),
        "model/generation_config.json": _json(
            {"bos_token_id": BOS, "eos_token_id": [EOS, TURN_END], "pad_token_id": PAD}
        ),
        "model/model.safetensors": _weights(),
        "model/tokenizer.json": _tokenizer(corpus),
        "model/tokenizer_config.json": _json(_tokenizer_config()),
        "model/chat_template.jinja": CHAT_TEMPLATE.encode(),
        "corpus.txt": corpus.encode(),
        # Last: where the spec is, all it names is there.
        "spec.yaml": files("horizon_app.cli").joinpath("example_spec.yaml").read_bytes(),
    }
    foreign = [name for name, data in content.items() if _differs(folder / name, data)]
    if foreign:
        raise CommandFailed(
            f"{folder} already holds {', '.join(foreign)} with other content; nothing was written. "
            "Choose another folder, or move those files away"
        )
    for name, data in content.items():
        _write(folder / name, data)


def _corpus() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise CommandFailed("this Python lacks pydoc_data, the texts that the example trains on") from error
    cleaned = (re.sub(r"[ \t]+\n", "\n", topics[name]).strip("\n") for name in sorted(topics))
    return "\n\n\n".join(re.sub(r"\n{3,}", "\n\n", text) for text in cleaned) + "\n"


def _tokenizer(corpus: str) -> bytes:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus.splitlines(keepends=True), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", BOS)])
    if tokenizer.get_vocab_size() > VOCABULARY:
        raise CommandFailed(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, the model {VOCABULARY} rows")
    return tokenizer.to_str(pretty=True).encode()


def _weights() -> bytes:
    from safetensors.numpy import save

    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)

    norm = np.ones(HIDDEN, dtype=np.float32)
    tensors = {"model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        parts = {
            "input_layernorm": norm,
            "self_attn.q_proj": matrix(HEADS * HEAD, HIDDEN),
            "self_attn.k_proj": matrix(KV_HEADS * HEAD, HIDDEN),
            "self_attn.v_proj": matrix(KV_HEADS * HEAD, HIDDEN),
            "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD),
            "post_attention_layernorm": norm,
            "mlp.gate_proj": matrix(INNER, HIDDEN),
            "mlp.up_proj": matrix(INNER, HIDDEN),
            "mlp.down_proj": matrix(HIDDEN, INNER),
        }
        tensors |= {f"model.layers.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
    tensors |= {"model.norm.weight": norm, "lm_head.weight": matrix(VOCABULARY, HIDDEN)}
    return save(tensors, metadata={"format": "pt"})


def _config() -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "tie_word_embeddings": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "dtype": "float32",
        "use_cache": True,
    }


def _tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[BOS],
        "eos_token": SPECIAL[EOS],
        "pad_token": SPECIAL[PAD],
        "model_max_length": POSITIONS,
        "clean_up_tokenization_spaces": False,
    }


def _json(value: dict[str, object]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _differs(path: Path, data: bytes) -> bool:
    if not path.exists():
        return False
    return not path.is_file() or path.stat().st_size != len(data) or path.read_bytes() != data


def _write(path: Path, data: bytes) -> None:
    """Write a file in whole or not at all."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
