"""Which characters and tokens of a rendered chat are the assistant's own words. One rendering, one tokenisation.

A template that marks them itself (`{% generation %}`) is believed. Otherwise the chat is also rendered up to the start
and up to the end of each answer, and both texts must be beginnings of the whole one; no token is ever split or joined.
"""

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from horizon_app.data.tokenizer import Encoding, Tokenizer

ASSISTANT = "assistant"
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


class TemplateUnfit(ValueError):
    """The chat template does not tell where the answers are."""


class Rendered(NamedTuple):
    """A chat as one text, and the places of its answers."""

    text: str
    spans: list[tuple[int, int]]


def marks_answers(tokenizer: Tokenizer) -> bool:
    """Whether the template marks the assistant's words itself."""
    return _GENERATION.search(tokenizer.chat_template) is not None


def render_chat(tokenizer: Tokenizer, messages: list[dict[str, Any]]) -> Rendered:
    """The whole chat, and the characters of each answer with its end mark. Raises TemplateUnfit."""
    whole = tokenizer.render(messages)
    spans: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        if message["role"] == ASSISTANT:
            spans.append(_answer(tokenizer, messages, index, whole))
    return Rendered(whole, spans)


def answer_tokens(encoding: Encoding, spans: list[tuple[int, int]]) -> NDArray[np.bool_]:
    """Which tokens hold a character of an answer."""
    trained = np.zeros(len(encoding.ids), dtype=np.bool_)
    upcoming = iter(spans)
    span = next(upcoming, None)
    reached = 0
    for position, (start, end) in enumerate(encoding.offsets):
        # Offsets may leave spaces out; tokens follow each other without a gap, so a gap belongs to the later one.
        begin, reached = min(start, reached), max(end, reached)
        while span is not None and begin >= span[1]:
            span = next(upcoming, None)
        if span is None:
            break
        trained[position] = end > span[0]
    return trained


def _answer(tokenizer: Tokenizer, messages: list[dict[str, Any]], index: int, whole: str) -> tuple[int, int]:
    content: str = messages[index]["content"]
    before = tokenizer.render(messages[:index], opens_answer=True) if index else _opening(tokenizer, messages, whole)
    if not whole.startswith(before):
        raise TemplateUnfit(
            f"the chat template renders what comes before messages[{index}] unlike in the whole chat, "
            "so its place is not known"
        )
    through = tokenizer.render(messages[: index + 1])
    start = len(before)
    end = len(through) if whole.startswith(through) else _end_by_content(before, through, whole, content.strip())
    if end is None or end < start:
        raise TemplateUnfit(
            f"the chat template renders messages[{index}] unlike when the chat ends there, so its end is not known"
        )
    if index and before == tokenizer.render(messages[:index]):
        # The template opens no answer for the model, so what it writes before the words is not the model's to write.
        words = whole.find(content.strip(), start, end)
        start = words if whole[start:words].strip() and words > start else start
    return start, _without_space_after_mark(whole, start, end, content)


def _opening(tokenizer: Tokenizer, messages: list[dict[str, Any]], whole: str) -> str:
    """What comes before a chat's first words where the assistant speaks first: few templates render no messages."""
    content = messages[0]["content"]
    at = whole.find(content) if content else -1
    if at < 0:
        raise TemplateUnfit(
            "the chat starts with the assistant, and the chat template does not show its words as they are"
        )
    return whole[:at]


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
