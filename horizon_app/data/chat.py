"""Which characters and tokens of a rendered chat are the assistant's own words. One rendering, one tokenisation.

A template that marks them itself (`{% generation %}`) is believed. Otherwise the chat is also rendered up to the start
and up to the end of each answer, and both texts must be beginnings of the whole one; no token is ever split or joined.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from horizon_app.data.conversations import ASSISTANT
from horizon_app.data.rows import ChatRow, Message
from horizon_app.data.tokenizer import Encoding, Span, Tokenizer, Tools

_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


class TemplateUnfit(ValueError):
    """The chat template does not tell where the answers are."""


class Rendered(NamedTuple):
    """A chat as one text, and the places of its answers."""

    text: str
    spans: list[Span]


def render_all(tokenizer: Tokenizer, row: ChatRow) -> Rendered:
    """The whole chat, all of it to be trained."""
    text = tokenizer.render(row.messages, row.tools)
    return Rendered(text, [(0, len(text))])


def render_chat(tokenizer: Tokenizer, row: ChatRow) -> Rendered:
    """The whole chat, and the characters of each answer with its end mark. Raises TemplateUnfit."""
    if _GENERATION.search(tokenizer.chat_template(row.tools)):
        return _render_marked(tokenizer, row)
    chat = _Chat(tokenizer, row.messages, row.tools)
    answers = [index for index, message in enumerate(row.messages) if message["role"] == ASSISTANT]
    return Rendered(chat.whole, [chat.answer(index) for index in answers if index >= row.answers_from])


def _render_marked(tokenizer: Tokenizer, row: ChatRow) -> Rendered:
    """A chat whose template marks the answers. An end-of-text token right behind one belongs to it."""
    text, spans = tokenizer.render_marked(row.messages, row.tools)
    end_mark = tokenizer.eos_text
    if end_mark:
        # Some templates close the mark before it; a model that never sees it trained never stops.
        spans = [(start, end + len(end_mark) * text.startswith(end_mark, end)) for start, end in spans]
    answers = [index for index, message in enumerate(row.messages) if message["role"] == ASSISTANT]
    earlier = sum(index < row.answers_from for index in answers)
    if earlier and len(spans) != len(answers):
        raise TemplateUnfit(f"the chat template marks {len(spans)} answers in a chat of {len(answers)}")
    return Rendered(text, spans[earlier:])


def answer_tokens(encoding: Encoding, spans: list[Span]) -> NDArray[np.bool_]:
    """Which tokens hold a character of an answer."""
    trained = np.zeros(len(encoding.ids), dtype=np.bool_)
    if not len(trained):
        return trained
    offsets = np.array(encoding.offsets)
    starts, ends = offsets[:, 0], offsets[:, 1]
    # Offsets may leave spaces out; tokens follow each other without a gap, so a gap belongs to the later one.
    reached = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]])
    starts = np.minimum(starts, reached)
    for start, end in spans:
        trained |= (starts < end) & (ends > start)
    return trained


class _Chat:
    """A chat, rendered whole and up to any message."""

    def __init__(self, tokenizer: Tokenizer, messages: list[Message], tools: Tools) -> None:
        self._tokenizer, self._messages, self._tools = tokenizer, messages, tools
        self.whole = tokenizer.render(messages, tools)

    def answer(self, index: int) -> Span:
        """The characters of one answer with its end mark. Raises TemplateUnfit."""
        whole = self.whole
        content: str = self._messages[index]["content"]
        before = self._up_to(index, opens_answer=True) if index else self._opening()
        if not whole.startswith(before):
            raise TemplateUnfit(
                f"the chat template renders what comes before messages[{index}] unlike in the whole chat, "
                "so its place is not known"
            )
        through = self._up_to(index + 1)
        start = len(before)
        end = len(through) if whole.startswith(through) else _end_by_content(before, through, whole, content.strip())
        if end is None or end < start:
            raise TemplateUnfit(
                f"the chat template renders messages[{index}] unlike when the chat ends there, so its end is not known"
            )
        if index and before == self._up_to(index):
            # The template opens no answer for the model, so what it writes before the words is not the model's to
            # write.
            words = whole.find(content.strip(), start, end)
            start = words if whole[start:words].strip() and words > start else start
        return start, _without_space_after_mark(whole, start, end, content)

    def _up_to(self, index: int, *, opens_answer: bool = False) -> str:
        if index == len(self._messages):
            return self.whole
        return self._tokenizer.render(self._messages[:index], self._tools, opens_answer=opens_answer)

    def _opening(self) -> str:
        """What comes before the words of a chat that the assistant begins: few templates render no messages."""
        content = self._messages[0]["content"]
        at = self.whole.find(content) if content else -1
        if at < 0:
            raise TemplateUnfit(
                "the chat starts with the assistant, and the chat template does not show its words as they are"
            )
        return self.whole[:at]


def _end_by_content(before: str, through: str, whole: str, content: str) -> int | None:
    """The end of an answer that is rendered otherwise when it is the last one, for example with an empty thought.

    The answer's words must come right at its start or after the same text, and the same end mark after them.
    """
    if not content or not through.startswith(before):
        return None
    at = through.find(content, len(before))
    if at < 0:
        return None
    lead, tail = through[len(before) : at], through[at + len(content) :]
    for place in (len(before), len(before) + len(lead)):
        if whole.startswith(content + tail, place) and whole[len(before) : place] in ("", lead):
            return place + len(content) + len(tail)
    return None


def _without_space_after_mark(whole: str, start: int, end: int, content: str) -> int:
    """Leave out white space after the end mark, which the model never has to write; without a mark it is the mark."""
    words = whole[start:end].rstrip()
    has_mark = bool(words) and not words.endswith(content.rstrip() or words)
    return start + len(words) if has_mark or not content.strip() else end
