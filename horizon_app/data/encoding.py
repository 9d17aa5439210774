"""From rows to token ids with their training marks, many rows at a time. Knows nothing of sequences and batches."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray

from horizon_app.contracts.spec_words import TrainOn
from horizon_app.data.chat import Rendered, TemplateUnfit, answer_tokens, render_all, render_chat
from horizon_app.data.errors import BadRow, ProblemList, refused
from horizon_app.data.rows import ChatRow, PairRow, Row, TextRow
from horizon_app.data.templates import built_in_names
from horizon_app.data.tokenizer import Encoding, Ids, Tokenizer

_GROUP_ROWS = 256
_GROUP_CHARACTERS = 1 << 20


class Encoded(NamedTuple):
    """A row's tokens, and which of them are to be trained."""

    row: Row
    ids: Ids
    trained: NDArray[np.bool_]


def encode_rows(
    rows: Iterable[Row], tokenizer: Tokenizer, train_on: TrainOn, problems: ProblemList
) -> Iterator[Encoded]:
    """Tokens of each row, in order; rows that the chat template refuses go into `problems`.

    Raises DataError at the first chat where the tokenizer can't do chats at all.
    """
    for group in _groups(rows):
        for kind, alike in groupby(group, key=type):
            if kind is ChatRow:
                chats = [row for row in alike if isinstance(row, ChatRow)]
                yield from _encode_chats(chats, tokenizer, train_on, problems)
            elif kind is PairRow:
                yield from _encode_pairs([row for row in alike if isinstance(row, PairRow)], tokenizer, train_on)
            else:
                yield from _encode_texts([row for row in alike if isinstance(row, TextRow)], tokenizer)


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows that follow each other, so many that the tokenizer's threads are busy, and few enough to be held."""
    group: list[Row] = []
    characters = 0
    for row in rows:
        group.append(row)
        characters += len(row.text) if isinstance(row, TextRow) else 0
        if len(group) >= _GROUP_ROWS or characters >= _GROUP_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _encode_texts(rows: list[TextRow], tokenizer: Tokenizer) -> Iterator[Encoded]:
    for row, ids in zip(rows, tokenizer.encode([row.text for row in rows]), strict=True):
        around = _with_added(ids, tokenizer, row) if len(ids) or not (row.begins and row.ends) else ids
        yield Encoded(row, around, np.ones(len(around), np.bool_))


def _with_added(ids: Ids, tokenizer: Tokenizer, row: TextRow) -> Ids:
    """What the tokenizer itself adds around a text, and one end-of-text mark."""
    before = tokenizer.added_before if row.begins else []
    after = _ending(tokenizer) if row.ends else []
    return np.concatenate([np.array(before, np.int32), ids, np.array(after, np.int32)])


def _ending(tokenizer: Tokenizer) -> list[int]:
    after = list(tokenizer.added_after)
    if tokenizer.eos_id is not None and tokenizer.eos_id not in after[-1:]:
        after.append(tokenizer.eos_id)
    return after


def _encode_pairs(rows: list[PairRow], tokenizer: Tokenizer, train_on: TrainOn) -> Iterator[Encoded]:
    """Prompt and completion are encoded apart, so that no token crosses their border."""
    texts = [text for row in rows for text in (row.prompt, row.completion)]
    halves = iter(tokenizer.encode(texts))
    for row, prompt, completion in zip(rows, halves, halves, strict=True):
        start = np.concatenate([np.array(tokenizer.added_before, np.int32), prompt])
        answer = np.concatenate([completion, np.array(_ending(tokenizer), np.int32)])
        trained = np.zeros(len(start) + len(answer), np.bool_)
        trained[0 if train_on is TrainOn.ALL else len(start) :] = True
        yield Encoded(row, np.concatenate([start, answer]), trained)


def _encode_chats(
    rows: list[ChatRow], tokenizer: Tokenizer, train_on: TrainOn, problems: ProblemList
) -> Iterator[Encoded]:
    _require_chats(tokenizer, rows[0])
    plain: list[tuple[ChatRow, Rendered]] = []
    careful: dict[int, Encoding] = {}
    for row in rows:
        try:
            reserved = tokenizer.reserved.appear_in([row.messages, row.tools])
            shown = _render(tokenizer, _marked(tokenizer, row) if reserved else row, train_on)
            if reserved:
                shown, careful[len(plain)] = _encode_apart(tokenizer, shown)
        except BadRow as error:
            problems.add_row(error, row.file, row.line)
        except _TEMPLATE_FAILURES as error:
            problems.add_row(_refusal(error), row.file, row.line)
        else:
            plain.append((row, shown))
    ordinary = iter(tokenizer.encode_rendered([shown.text for i, (_, shown) in enumerate(plain) if i not in careful]))
    for index, (row, shown) in enumerate(plain):
        encoding = careful[index] if index in careful else next(ordinary)
        trained = answer_tokens(encoding, shown.spans)
        ids = tokenizer.with_bos(encoding.ids)
        added = np.full(len(ids) - len(trained), train_on is TrainOn.ALL)
        yield Encoded(row, ids, np.concatenate([added, trained]))


def _render(tokenizer: Tokenizer, row: ChatRow, train_on: TrainOn) -> Rendered:
    render = render_all if train_on is TrainOn.ALL else render_chat
    try:
        return render(tokenizer, row)
    except TypeError:
        # Most templates take a call's arguments as an object, some as JSON text.
        as_text = _with_arguments_as_text(row)
        if as_text is None:
            raise
        return render(tokenizer, as_text)


def _marked(tokenizer: Tokenizer, row: ChatRow) -> ChatRow:
    messages = [
        {key: value if key == "role" else tokenizer.reserved.marked(value) for key, value in message.items()}
        for message in row.messages
    ]
    return ChatRow(
        file=row.file, line=row.line, messages=messages, tools=tokenizer.reserved.marked(row.tools),
        answers_from=row.answers_from,
    )  # fmt: skip


def _encode_apart(tokenizer: Tokenizer, shown: Rendered) -> tuple[Rendered, Encoding]:
    """A chat whose words spell out special tokens."""
    renamed = tokenizer.reserved.renamed
    places = [(len(renamed(shown.text[:start])), len(renamed(shown.text[:end]))) for start, end in shown.spans]
    text = renamed(shown.text)
    return Rendered(text, places), Encoding(*tokenizer.reserved.encode(text))


def _with_arguments_as_text(row: ChatRow) -> ChatRow | None:
    """The chat with the arguments of its tool calls as JSON text; None where it calls no tools."""
    if not any("tool_calls" in message for message in row.messages):
        return None
    messages = [
        {**message, "tool_calls": [_call_as_text(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in row.messages
    ]
    return ChatRow(file=row.file, line=row.line, messages=messages, tools=row.tools, answers_from=row.answers_from)


def _call_as_text(call: dict[str, dict[str, object]]) -> dict[str, object]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"], ensure_ascii=False)}}


# What a template raises on purpose, and what it runs into: templates are programs that come with models.
_TEMPLATE_FAILURES = (
    TemplateUnfit, TemplateError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError,
)  # fmt: skip


def _require_chats(tokenizer: Tokenizer, row: ChatRow) -> None:
    if not tokenizer.has_chat_template:
        message = f"the model brings no chat template, which conversations need (first {row.file} line {row.line})"
        fix = (
            f"choose one with data.chat_template ({built_in_names()}), put a chat_template.jinja into the model's "
            "folder, or give prompt and completion or text"
        )
        raise refused("data.chat_template", message, fix)
    if not tokenizer.is_fast:
        message = "the tokenizer is a slow one, which does not tell the characters of its tokens"
        raise refused("model.path", message, "save it as a fast one (tokenizer.json) with transformers")


def _refusal(error: Exception) -> BadRow:
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, TemplateUnfit):
        return BadRow(words, "set data.train_on to all, or use a template with {% generation %} marks")
    fix = (
        "change the row's turns, for example put the system text into the first user turn, or choose another template "
        f"with data.chat_template ({built_in_names()})"
    )
    return BadRow(f"the chat template refuses the row: {words}", fix)
