"""Keeps apart the special tokens that a chat template writes and the same characters in somebody's words.

Both look alike in the rendered text. So where a row's own words hold such characters, they are marked before the
template sees them; afterwards the template's tokens are given other names, and a copy of the tokenizer that knows only
those encodes the text. There the row's words are ordinary characters, with one tokenisation of the whole text.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from tokenizers import Tokenizer

from horizon_app.data.errors import BadRow

# Unicode keeps these for use inside of a program: they are no characters, and no text should hold them.
_MARK, _NAME_START, _NAME_END = "\ufdd0", "\ufdd1", "\ufdd2"
_NONCHARACTERS = re.compile("[\ufdd0-\ufdef]")


class ReservedWords:
    """The special tokens of a tokenizer."""

    def __init__(self, backend: Tokenizer) -> None:
        self._backend = backend
        added = backend.get_added_tokens_decoder()
        self._words = sorted((token.content for token in added.values() if token.special), key=len, reverse=True)
        either = "|".join(re.escape(word) for word in self._words) or "(?!)"
        self._word = re.compile(either)
        self._unmarked = re.compile(f"(?<!{_MARK})(?:{either})")
        self._copy: Tokenizer | None = None
        self._ids: dict[int, int] = {}

    def spelt_out(self, text: str) -> bool:
        """Whether a text holds one of them."""
        return self._word.search(text) is not None

    def appear_in(self, value: Any) -> bool:
        """Whether a text, or any text inside of a nested value, holds one of them. Raises BadRow for noncharacters."""
        if isinstance(value, str):
            if _NONCHARACTERS.search(value):
                raise BadRow("the row holds a Unicode noncharacter (U+FDD0 to U+FDEF)", "remove it: it is no text")
            return self.spelt_out(value)
        if isinstance(value, dict):
            value = list(cast(dict[str, Any], value).values())
        inside = [self.appear_in(item) for item in cast(list[Any], value)] if isinstance(value, list) else []
        return any(inside)

    def marked(self, value: Any) -> Any:
        """The value with each of them marked in all its texts."""
        if isinstance(value, str):
            return self._word.sub(lambda found: "".join(_MARK + character for character in found[0]), value)
        if isinstance(value, dict):
            return {key: self.marked(item) for key, item in cast(dict[str, Any], value).items()}
        return [self.marked(item) for item in cast(list[Any], value)] if isinstance(value, list) else value

    def renamed(self, text: str) -> str:
        """A rendered text in the words of the copy: the template's tokens renamed, the marks taken out."""
        return self._unmarked.sub(lambda found: self._name(found[0]), text).replace(_MARK, "")

    def encode(self, renamed: str) -> tuple["np.ndarray[Any, np.dtype[np.int32]]", list[tuple[int, int]]]:
        """Ids of a renamed text and the characters of each, by the copy. Ids are those of the tokenizer itself."""
        if self._copy is None:
            self._copy = self._make_copy()
        encoding = self._copy.encode(renamed, add_special_tokens=False)
        return np.array([self._ids.get(i, i) for i in encoding.ids], np.int32), encoding.offsets

    def _name(self, word: str) -> str:
        return f"{_NAME_START}{self._words.index(word)}{_NAME_END}"

    def _make_copy(self) -> Tokenizer:
        content: dict[str, Any] = json.loads(self._backend.to_str())
        names = {word: self._name(word) for word in self._words}
        numbers: dict[str, int] = {}
        for token in content["added_tokens"]:
            token["content"] = names.get(token["content"], token["content"]) if token["special"] else token["content"]
            numbers[token["content"]] = token["id"]
        model = content["model"]
        vocabulary = model.get("vocab")
        if isinstance(vocabulary, dict):
            numbered = cast(dict[str, int], vocabulary)
            model["vocab"] = {names.get(word, word): number for word, number in numbered.items()}
        elif isinstance(vocabulary, list):
            scored = cast(list[tuple[str, float]], vocabulary)
            model["vocab"] = [[names.get(word, word), score] for word, score in scored]
        if "merges" in model:
            # Such a tokenizer makes the token out of plain characters too.
            merges: list[Any] = model["merges"]
            model["merges"] = [merge for merge in merges if not _makes_any_of(merge, names)]
        if model.get("unk_token") in names:
            model["unk_token"] = names[model["unk_token"]]
        content["post_processor"] = content["truncation"] = content["padding"] = None
        copy = Tokenizer.from_str(json.dumps(content))
        # Added tokens that the model's own vocabulary does not have are numbered anew.
        self._ids = {cast(int, copy.token_to_id(word)): number for word, number in numbers.items()}
        return copy


def _makes_any_of(merge: str | list[str], words: Mapping[str, str]) -> bool:
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left in words or right in words or left + right in words
