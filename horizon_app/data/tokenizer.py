"""The model's own tokenizer, as far as data needs it. Loads local files only and runs no code of a model."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from horizon_app.data.errors import refused

# What decides the ids: files whose bytes go into the fingerprint.
_DECIDING = (
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "spiece.model", "chat_template.jinja", "chat_template.json",
)  # fmt: skip


class Encoding(NamedTuple):
    """Ids of a text, and which characters each of them stands for."""

    ids: NDArray[np.int32]
    offsets: list[tuple[int, int]]


class _PretrainedTokenizer(Protocol):
    """The part of transformers' tokenizers that is used here."""

    is_fast: bool
    eos_token_id: int | None
    bos_token_id: int | None
    pad_token_id: int | None
    chat_template: Any
    added_tokens_decoder: dict[int, Any]

    def __len__(self) -> int: ...
    def __call__(self, text: Any, **options: Any) -> Any: ...
    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...
    def get_chat_template(self) -> str: ...
    def decode(self, token_ids: Any, **options: Any) -> str: ...


class Tokenizer:
    """Encodes texts and renders chats with the files of one model folder."""

    def __init__(self, folder: Path, pretrained: _PretrainedTokenizer) -> None:
        self.folder = folder
        self._pretrained = pretrained
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
    def chat_template(self) -> str:
        """The template that chats are rendered with."""
        return self._pretrained.get_chat_template()

    def fingerprint(self) -> str:
        """Digest of the files that decide the ids."""
        digest = hashlib.sha256()
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

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Ids of each text, without the tokens that the tokenizer adds around a text."""
        if not texts:
            return []
        return [np.array(ids, dtype=np.int32) for ids in self._call(texts)["input_ids"]]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[Encoding]:
        """The same with character offsets; needs a fast tokenizer."""
        if not texts:
            return []
        encoded = self._call(texts, return_offsets_mapping=True)
        both = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        return [Encoding(np.array(ids, dtype=np.int32), offsets) for ids, offsets in both]

    def render(self, messages: Sequence[dict[str, Any]], *, opens_answer: bool = False) -> str:
        """The chat as one text; `opens_answer` adds what comes before the assistant's next words."""
        options = {"tokenize": False, "add_generation_prompt": opens_answer}
        return cast(str, self._pretrained.apply_chat_template(list(messages), **options))

    def encode_marked(self, messages: Sequence[dict[str, Any]]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Ids of a chat, and which of them the template itself marks as generated."""
        options: dict[str, Any] = {"tokenize": True, "return_dict": True, "return_assistant_tokens_mask": True}
        encoded = self._pretrained.apply_chat_template(list(messages), tokenizer_kwargs={"verbose": False}, **options)
        ids = np.array(encoded["input_ids"], dtype=np.int32)
        trained = np.array(encoded["assistant_masks"], dtype=np.bool_)
        # Some templates close the mark before the end-of-text token; a model that never sees it trained never stops.
        ends_answer = trained[:-1] & (ids[1:] == (-1 if self.eos_id is None else self.eos_id))
        trained[1:] |= ends_answer
        return ids, trained

    def show(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds to those before; a character of several tokens stands at the last of them."""
        texts: list[str] = []
        done = ""
        for end in range(1, len(ids) + 1):
            text = self._pretrained.decode(list(ids[:end]), clean_up_tokenization_spaces=False)
            if text.endswith("\ufffd") and end < len(ids):
                texts.append("")
            else:
                texts.append(text[len(done) :])
                done = text
        return texts

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids, marks left out."""
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


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder. Raises DataError that says why it can't be used."""
    import transformers  # seconds of import time

    auto: Any = cast(Any, transformers).AutoTokenizer
    if not folder.is_dir():
        raise refused("model.path", f"there is no folder {folder}", "name a model folder with a tokenizer")
    try:
        pretrained: Any = auto.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:
        # The tokenizers library raises plain Exception for a broken file; what is our own fault goes on.
        if (
            not isinstance(error, OSError | ValueError | ImportError | KeyError | TypeError)
            and type(error) is not Exception
        ):
            raise
        reason = f"{error}".strip().splitlines()[0] if f"{error}".strip() else type(error).__name__
        message = f"the tokenizer in {folder} can't be loaded: {reason}"
        raise refused("model.path", message, "copy the tokenizer's files (tokenizer.json) into the folder") from error
    return Tokenizer(folder, pretrained)
