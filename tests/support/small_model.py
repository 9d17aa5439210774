"""A model folder small enough to train in seconds: a Llama's config, and a tokenizer whose tokens are bytes."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

END = "<|end|>"


def write_small_model(folder: Path) -> Path:
    """Config and tokenizer of a Llama with 4 layers of about 50 KiB; its weights are to be drawn at random."""
    folder.mkdir(parents=True)
    words = {token: index for index, token in enumerate([*sorted(pre_tokenizers.ByteLevel.alphabet()), END])}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)
    fast.save_pretrained(folder)
    config = LlamaConfig(
        architectures=["LlamaForCausalLM"], vocab_size=len(words), hidden_size=64, intermediate_size=160,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=words[END], eos_token_id=words[END], pad_token_id=words[END],
    )  # fmt: skip
    config.save_pretrained(folder)
    return folder


def write_rhyme(path: Path) -> Path:
    """Text that a small model learns in a few steps."""
    path.write_text("the quick brown fox jumps over the lazy dog and runs away. " * 400)
    return path
