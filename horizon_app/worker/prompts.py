"""Prompts as the model's tokens, and what it generates as text: by the tokenizer and chat template of its folder."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from horizon_app.contracts.spec_words import ChatTemplate
from horizon_app.data.tokenizer import Tokenizer, load_tokenizer

_PROBE = "horizon"
_HOLD = "\ufffd"
"""What stands for a character whose bytes are not all there yet."""


class PromptWriter:
    """A tokenizer, as a model that answers needs it."""

    def __init__(self, tokenizer: Tokenizer, stop_ids: Iterable[int]) -> None:
        """`stop_ids` are those that the model's folder names, besides the marks that its chats end with."""
        self._tokenizer = tokenizer
        own = {tokenizer.eos_id} - {None}
        mark, self.end_text = self._end_of_turn()
        """By which an answer ends where the template's mark is no token of its own; else empty."""
        self.stop_ids = frozenset({*stop_ids, *cast(set[int], own), *mark})

    @property
    def has_chat_template(self) -> bool:
        """Whether messages are rendered by a template of the model's own."""
        return self._tokenizer.has_chat_template and self._tokenizer.is_fast

    def prompt(self, text: str) -> list[int]:
        """A user's message where there is a chat template, else text to continue."""
        return self.chat([{"role": "user", "content": text}]) if self.has_chat_template else self.continued(text)

    def continued(self, text: str) -> list[int]:
        """The tokens of a text, with what the tokenizer puts before one."""
        return [*self._tokenizer.added_before, *self._tokenizer.encode([text])[0].tolist()]

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens of a conversation, up to where the assistant speaks next."""
        turns = [dict(message) for message in messages]
        reserved = self._tokenizer.reserved
        if not reserved.appear_in(turns):
            return self._rendered(self._tokenizer.render(turns, opens_answer=True))
        # What somebody says stays text, as in training: only the template's own marks are marks.
        marked = [{**turn, "content": reserved.marked(turn["content"])} for turn in turns]
        ids, _ = reserved.encode(reserved.renamed(self._tokenizer.render(marked, opens_answer=True)))
        return self._tokenizer.with_bos(ids).tolist()

    def text(self, ids: Sequence[int]) -> str:
        """What generated tokens say, marks and what follows the end of an answer left out."""
        words = self.words(ids)
        return words.partition(self.end_text)[0] if self.end_text else words

    def words(self, ids: Sequence[int]) -> str:
        """All that generated tokens say, special tokens left out."""
        return self._tokenizer.words(ids)

    def _rendered(self, text: str) -> list[int]:
        return self._tokenizer.with_bos(self._tokenizer.encode_rendered([text])[0].ids).tolist()

    def _end_of_turn(self) -> tuple[set[int], str]:
        """The mark that follows an answer in the chat template: a token of its own, or a text."""
        if not self.has_chat_template:
            return set(), ""
        messages = [{"role": "user", "content": _PROBE}, {"role": "assistant", "content": _PROBE}]
        _, found, tail = self._tokenizer.render(messages).rpartition(_PROBE)
        ids = self._tokenizer.encode_rendered([tail])[0].ids.tolist() if found and tail else []
        if ids and self._tokenizer.is_special(ids[0]):
            return {ids[0]}, ""
        return set(), tail.strip() if found else ""


class TextStream:
    """Tokens in, the text that each adds out; half a character, or half an end mark, waits for its other half."""

    def __init__(self, writer: PromptWriter) -> None:
        self._writer = writer
        self._ids: list[int] = []
        self._done = 0  # tokens whose text is out for good
        self._shown = ""  # text that is out of those behind them
        self.ended = False
        """The answer has come to its end mark."""

    def add(self, token: int) -> str:
        """The new text, empty where there is none yet."""
        self._ids.append(token)
        words = self._writer.words(self._ids[self._done :])
        text = self._certain(words)
        if text.endswith(_HOLD) or not text.startswith(self._shown):
            return ""
        new, self._shown = text[len(self._shown) :], text
        if new.endswith("\n"):  # nothing before a line's end changes what is after it
            self._done, self._shown = len(self._ids), ""
        return new

    def rest(self) -> str:
        """What waited for more that did not come."""
        return self._writer.text(self._ids[self._done :])[len(self._shown) :]

    def _certain(self, words: str) -> str:
        """What of a text is no part of an end mark, nor behind one."""
        end = self._writer.end_text
        if end and end in words:
            self.ended = True
            return words.partition(end)[0]
        held = next((n for n in range(min(len(end), len(words)), 0, -1) if words.endswith(end[:n])), 0)
        return words[: len(words) - held]


def load_prompt_writer(model_dir: Path, chat_template: ChatTemplate = ChatTemplate.TOKENIZER) -> PromptWriter:
    """The writer of a model folder. Raises DataError where its tokenizer can't be used."""
    return PromptWriter(load_tokenizer(model_dir, chat_template), _stop_ids(model_dir))


def _stop_ids(model_dir: Path) -> set[int]:
    """The ids that generation_config.json and config.json say end a text; a file that can't be read names none."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        try:
            content: Any = json.loads((model_dir / name).read_bytes())
        except (OSError, ValueError):
            continue
        named = cast(dict[str, Any], content).get("eos_token_id") if isinstance(content, dict) else None
        found |= {id_ for id_ in (cast(list[Any], named) if isinstance(named, list) else [named]) if type(id_) is int}
    return found
