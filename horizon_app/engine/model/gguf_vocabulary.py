"""A model's tokenizer in the words of a GGUF file: tokens, kinds, merges, marks and chat template.

llama.cpp splits text by a pre-tokenizer that it knows by name, so a byte-level tokenizer whose way of splitting has no
name there can't be written: every text would become other tokens.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gguf import GGUFWriter, SpecialVocab, TokenType
from gguf.vocab import LlamaHfVocab, SentencePieceVocab
from transformers import AutoTokenizer

from horizon_app.engine.model.export import ExportImpossible

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {_WORDS % "{1,3}": "llama-bpe", _WORDS % "": "qwen2"}
"""Regular expressions of tokenizer.json, and llama.cpp's names of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """What a GGUF file says of tokens."""

    model: str  # llama.cpp's kind of tokenizer
    splitting: str  # its name of the pre-tokenizer
    tokens: list[bytes]
    kinds: list[TokenType]
    scores: list[float] | None
    special: SpecialVocab

    def write(self, writer: GGUFWriter) -> None:
        """Add it all to a file."""
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.splitting)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.kinds)
        if self.scores is not None:
            writer.add_token_scores(self.scores)
        self.special.add_to_gguf(writer, quiet=True)


def read_vocabulary(folder: Path, size: int) -> Vocabulary:
    """The tokenizer of a model folder, filled up to the model's `size`. Raises ExportImpossible."""
    if (folder / "tokenizer.model").is_file():
        return _scored(SentencePieceVocab(folder), folder, size)
    content = _tokenizer_json(folder)
    if content["model"].get("type") != "BPE":
        raise ExportImpossible(f"a tokenizer of the kind {content['model'].get('type')} has no place in a GGUF file")
    if content["model"].get("byte_fallback"):
        return _scored(LlamaHfVocab(folder), folder, size)
    return _byte_level(folder, size, _splitting(content.get("pre_tokenizer")))


def _tokenizer_json(folder: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads((folder / "tokenizer.json").read_bytes())
        return content if isinstance(content.get("model"), dict) else {"model": {}}
    except (OSError, ValueError, AttributeError) as error:
        raise ExportImpossible(f"{folder} has no tokenizer.json that can be read: {error}") from error


def _splitting(pre_tokenizer: dict[str, Any] | None) -> str:
    parts = [pre_tokenizer] if pre_tokenizer else []
    if pre_tokenizer and pre_tokenizer.get("type") == "Sequence":
        parts = cast(list[dict[str, Any]], pre_tokenizer["pretokenizers"])
    shape = [_shape(part) for part in parts]
    if shape == ["bytes by words"]:
        return "gpt-2"
    if shape == ["digits one by one", "bytes by words"]:
        return "smollm"
    if len(shape) == 2 and shape[1] == "bytes" and shape[0] in _SPLITS:
        return _SPLITS[shape[0]]
    raise ExportImpossible(
        f"the tokenizer splits text in a way that has no name here for llama.cpp ({', '.join(shape) or 'not at all'}); "
        "export safetensors, and convert them with llama.cpp's own converter"
    )


def _shape(part: dict[str, Any]) -> str:
    kind = part.get("type")
    if kind == "ByteLevel":
        return "bytes by words" if part.get("use_regex", True) else "bytes"
    if kind == "Digits":
        return "digits one by one" if part.get("individual_digits") else "digits"
    if kind == "Split":
        return str(cast(dict[str, Any], part.get("pattern", {})).get("Regex"))
    return str(kind)


def _byte_level(folder: Path, size: int, splitting: str) -> Vocabulary:
    auto: Any = AutoTokenizer
    tokenizer: Any = auto.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    words = {id_: token for token, id_ in tokenizer.get_vocab().items()}
    added = tokenizer.added_tokens_decoder
    tokens: list[bytes] = []
    kinds: list[TokenType] = []
    for id_ in range(size):
        tokens.append(words.get(id_, f"[PAD{id_}]").encode())
        if id_ in added:
            kinds.append(TokenType.CONTROL if added[id_].special else TokenType.USER_DEFINED)
        else:
            kinds.append(TokenType.NORMAL if id_ in words else TokenType.UNUSED)
    special = SpecialVocab(folder, load_merges=True, n_vocab=size)
    if not special.merges:
        raise ExportImpossible("the tokenizer merges no letters, which llama.cpp takes for a broken file")
    return Vocabulary(
        model="gpt2", splitting=splitting, tokens=tokens, kinds=kinds, scores=None, special=special
    )  # fmt: skip


def _scored(vocab: SentencePieceVocab | LlamaHfVocab, folder: Path, size: int) -> Vocabulary:
    entries = list(vocab.all_tokens())[:size]
    missing = range(len(entries), size)
    return Vocabulary(
        model="llama", splitting="default",
        tokens=[*[text for text, _, _ in entries], *[f"[PAD{id_}]".encode() for id_ in missing]],
        kinds=[*[kind for _, _, kind in entries], *[TokenType.UNUSED for _ in missing]],
        scores=[*[score for _, score, _ in entries], *[-1000.0 for _ in missing]],
        special=SpecialVocab(folder, n_vocab=size),
    )  # fmt: skip
