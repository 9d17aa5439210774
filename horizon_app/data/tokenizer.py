"""The model's own tokenizer, as far as data needs it. Loads local files only and runs no code of a model."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from horizon_app.contracts.spec_words import ChatTemplate
from horizon_app.data.errors import refused
from horizon_app.data.reserved import ReservedWords
from horizon_app.data.templates import built_in_template

# What decides the ids: files whose bytes go into the fingerprint.
_DECIDING = (
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "spiece.model", "chat_template.jinja", "chat_template.json",
)  # fmt: skip


Ids = NDArray[np.int32]
Span = tuple[int, int]
Tools = list[dict[str, Any]] | None


class Encoding(NamedTuple):
    """Ids of a text, and which characters each of them stands for."""

    ids: Ids
    offsets: list[Span]


class _PretrainedTokenizer(Protocol):
    """The part of transformers' tokenizers that is used here."""

    is_fast: bool
    eos_token: str | None
    eos_token_id: int | None
    bos_token_id: int | None
    pad_token_id: int | None
    chat_template: Any
    added_tokens_decoder: dict[int, Any]
    special_tokens_map: dict[str, Any]

    def __len__(self) -> int: ...
    def __call__(self, text: Any, **options: Any) -> Any: ...
    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...
    def get_chat_template(self, chat_template: str | None = None, tools: Any = None) -> str: ...
    def decode(self, token_ids: Any, **options: Any) -> str: ...


class Tokenizer:
    """Encodes texts and renders chats with the files of one model folder."""

    def __init__(self, folder: Path, pretrained: _PretrainedTokenizer, chat_template: str | None = None) -> None:
        """Take a loaded tokenizer; `chat_template` replaces its own template."""
        self.folder = folder
        self._pretrained = pretrained
        if chat_template is not None:
            pretrained.chat_template = chat_template
        self.eos_id = pretrained.eos_token_id
        self.bos_id = pretrained.bos_token_id
        self.pad_id: int = next((i for i in (pretrained.pad_token_id, pretrained.eos_token_id) if i is not None), 0)
        self.is_fast = bool(pretrained.is_fast)
        self.has_chat_template = bool(pretrained.chat_template)
        self.added_before, self.added_after = self._added_to_text()

    @property
    def num_tokens(self) -> int:
        """How many tokens it knows, added ones included."""
        return len(self._pretrained)

    @property
    def eos_text(self) -> str:
        """The end-of-text token as templates write it; empty where there is none."""
        return self._pretrained.eos_token or ""

    def chat_template(self, tools: Tools = None) -> str:
        """The template that chats are rendered with; some models have another one for chats with tools."""
        return self._pretrained.get_chat_template(tools=tools)

    @cached_property
    def reserved(self) -> ReservedWords:
        """The special tokens, which nobody's words may be taken for. Needs a fast tokenizer."""
        return ReservedWords(cast(Any, self._pretrained).backend_tokenizer)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the files that decide the ids, and of the template."""
        digest = hashlib.sha256(json.dumps(self._pretrained.chat_template).encode())
        for name in _DECIDING:
            path = self.folder / name
            if path.is_file():
                digest.update(f"{name}:{path.stat().st_size}:".encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def model_vocabulary(self) -> int | None:
        """How many ids the model in the same folder has embeddings for; None where its config does not say."""
        try:
            config: Any = json.loads((self.folder / "config.json").read_bytes())
            words = config.get("vocab_size", config.get("text_config", {}).get("vocab_size"))
        except (OSError, ValueError, AttributeError):
            return None  # a folder of a tokenizer alone; a broken model is told by who loads it
        return words if isinstance(words, int) else None

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each text, without the tokens that the tokenizer adds around a text.

        Special tokens that a text spells out are ordinary characters.
        """
        spelt_out = [self.is_fast and self.reserved.spelt_out(text) for text in texts]
        plain = [text for text, apart in zip(texts, spelt_out, strict=True) if not apart]
        found = iter(self._call(plain, split_special_tokens=True)["input_ids"] if plain else [])
        return [
            self.reserved.encode(text)[0] if apart else np.array(next(found), dtype=np.int32)
            for text, apart in zip(texts, spelt_out, strict=True)
        ]

    def encode_rendered(self, texts: Sequence[str]) -> list[Encoding]:
        """Ids of rendered chats, special tokens recognised, with character offsets; needs a fast tokenizer."""
        if not texts:
            return []
        encoded = self._call(texts, return_offsets_mapping=True)
        both = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        return [Encoding(np.array(ids, dtype=np.int32), offsets) for ids, offsets in both]

    def render(self, messages: Sequence[dict[str, Any]], tools: Tools = None, *, opens_answer: bool = False) -> str:
        """The chat as one text; `opens_answer` adds what comes before the assistant's next words."""
        options: dict[str, Any] = {"tokenize": False, "add_generation_prompt": opens_answer, "tools": tools}
        return cast(str, self._pretrained.apply_chat_template(list(messages), **options))

    def render_marked(self, messages: Sequence[dict[str, Any]], tools: Tools = None) -> tuple[str, list[Span]]:
        """The chat as one text, and the characters that the template itself marks as generated."""
        from transformers.utils import chat_template_utils

        rendered: Any = cast(Any, chat_template_utils).render_jinja_template(
            conversations=[list(messages)], tools=tools, chat_template=self.chat_template(tools),
            return_assistant_tokens_mask=True, **self._pretrained.special_tokens_map,
        )  # fmt: skip
        return rendered[0][0], [(int(start), int(end)) for start, end in rendered[1][0]]

    def with_bos(self, ids: Ids) -> Ids:
        """Ids of a rendered chat with the BOS that the tokenizer puts before every text, where it is not there yet."""
        starts = len(ids) > 0 and ids[0] == self.bos_id
        adds = self.bos_id is not None and self.added_before[:1] == [self.bos_id]
        return np.concatenate([np.array([self.bos_id], np.int32), ids]) if adds and not starts else ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, special tokens as they are written."""
        return self._pretrained.decode(list(ids), clean_up_tokenization_spaces=False)

    def show(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds to those before; a character of several tokens stands at the last of them."""
        texts: list[str] = []
        known = done = 0  # what is decoded again, so that words keep the space before them; what is shown
        for end in range(1, len(ids) + 1):
            before, through = self.decode(ids[known:done]), self.decode(ids[known:end])
            if through.endswith("\ufffd") and end < len(ids):
                texts.append("")
            else:
                texts.append(through[len(before) :])
                known, done = done, end
        return texts

    def words(self, ids: Sequence[int]) -> str:
        """The text of generated ids, special tokens left out."""
        return self._pretrained.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def is_special(self, id_: int) -> bool:
        """Whether an id is a mark, such as the end of a turn, and no text."""
        return id_ in self._pretrained.added_tokens_decoder

    def _call(self, texts: Sequence[str], **options: Any) -> dict[str, Any]:
        return self._pretrained(
            list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False, **options
        )

    def _added_to_text(self) -> tuple[list[int], list[int]]:
        bare = list(self._pretrained("a", add_special_tokens=False)["input_ids"])
        full = list(self._pretrained("a")["input_ids"])
        for start in range(len(full) - len(bare) + 1):
            if full[start : start + len(bare)] == bare:
                return full[:start], full[start + len(bare) :]
        return [], []


def load_tokenizer(folder: Path, chat_template: ChatTemplate = ChatTemplate.TOKENIZER) -> Tokenizer:
    """The tokenizer of a model folder, with its own chat template or one of ours.

    Raises DataError that says why it can't be used.
    """
    import transformers  # seconds of import time
    from huggingface_hub.errors import StrictDataclassError  # config.json is read to find the kind of tokenizer

    auto: Any = cast(Any, transformers).AutoTokenizer
    if not folder.is_dir():
        raise refused("model.path", f"there is no folder {folder}", "name a model folder with a tokenizer")
    try:
        pretrained: Any = auto.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:
        # The tokenizers library raises plain Exception for a broken file; what is our own fault goes on.
        if (
            not isinstance(error, OSError | ValueError | ImportError | KeyError | TypeError | StrictDataclassError)
            and type(error) is not Exception
        ):
            raise
        told = f"{error}".strip().splitlines() or [type(error).__name__]
        reason = " ".join(" ".join(told[:2]).split()) if told[0].endswith(":") else told[0]
        message = f"the tokenizer in {folder} can't be loaded: {reason}"
        raise refused("model.path", message, "copy the tokenizer's files (tokenizer.json) into the folder") from error
    return Tokenizer(folder, pretrained, built_in_template(chat_template))
