"""Tokenizers whose ordinary tokens are bytes, so that a test can say exactly which of them are trained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
MakeTokenizer = Callable[..., Path]
WriteRows = Callable[..., Path]


@pytest.fixture
def make_tokenizer(tmp_path: Path) -> MakeTokenizer:
    """Writes a tokenizer's folder: `template` is its chat template, `bos` whether it puts <s> before every text."""

    def make(template: str | None = CHATML, *, bos: bool = True, eos: str | None = "</s>", pad: bool = True) -> Path:
        special = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"]
        words = {token: index for index, token in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
        tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens(special)
        if bos:
            tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        optional = {
            name: token for name, token in (("eos_token", eos), ("pad_token", "<pad>" if pad else None)) if token
        }
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", **optional)
        if template is not None:
            fast.chat_template = template
        folder = tmp_path / "tokenizer"
        fast.save_pretrained(folder)
        return folder

    return make


@pytest.fixture
def write_rows(tmp_path: Path) -> WriteRows:
    """Writes a .jsonl file of the given rows."""

    def write(*rows: Any, name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
