"""From rows to token ids with their training marks, many rows at a time. Knows nothing of sequences and batches."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray

from horizon_app.contracts.run_spec import TrainOn
from horizon_app.data.chat import TemplateUnfit, answer_tokens, marks_answers, render_chat
from horizon_app.data.errors import ProblemList, refused
from horizon_app.data.rows import ChatRow, Row, TextRow
from horizon_app.data.tokenizer import Tokenizer

_GROUP_ROWS = 256
_GROUP_CHARACTERS = 4 << 20
_PART_CHARACTERS = 1 << 20
_NO_TEMPLATE_FIX = 'use a chat model, put a chat_template.jinja into its folder, or write {"text": ...} rows'


class Encoded(NamedTuple):
    """A row's tokens, and which of them are to be trained."""

    row: Row
    ids: NDArray[np.int32]
    trained: NDArray[np.bool_]


def encode_rows(
    rows: Iterable[Row], tokenizer: Tokenizer, train_on: TrainOn, problems: ProblemList
) -> Iterator[Encoded]:
    """Tokens of each row, in order; rows that the chat template refuses go into `problems`.

    Raises DataError at the first chat where the tokenizer can't do chats at all.
    """
    for group in _groups(rows):
        if isinstance(group[0], TextRow):
            yield from _encode_texts([row for row in group if isinstance(row, TextRow)], tokenizer)
        else:
            chats = [row for row in group if isinstance(row, ChatRow)]
            yield from _encode_chats(chats, tokenizer, train_on, problems)


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows of one kind that follow each other, so many that the tokenizer's threads are busy."""
    group: list[Row] = []
    characters = 0
    for row in rows:
        full = len(group) >= _GROUP_ROWS or characters >= _GROUP_CHARACTERS
        if group and (full or type(row) is not type(group[0])):
            yield group
            group, characters = [], 0
        group.append(row)
        characters += len(row.text) if isinstance(row, TextRow) else 0
    if group:
        yield group


def _encode_texts(rows: list[TextRow], tokenizer: Tokenizer) -> Iterator[Encoded]:
    parts = [_parts(row.text) for row in rows]
    encoded = _encode_parts([part for row_parts in parts for part in row_parts], tokenizer)
    for row, row_parts in zip(rows, parts, strict=True):
        ids = np.concatenate([np.empty(0, np.int32), *(next(encoded) for _ in row_parts)])
        ids = _with_added_tokens(ids, tokenizer) if len(ids) else ids
        yield Encoded(row, ids, np.ones(len(ids), np.bool_))


def _encode_parts(parts: list[str], tokenizer: Tokenizer) -> Iterator[NDArray[np.int32]]:
    """Ids of each part, a few MiB of text at a time: what the tokenizer returns takes many times the ids' memory."""
    group: list[str] = []
    characters = 0
    for part in parts:
        if group and characters + len(part) > _GROUP_CHARACTERS:
            yield from tokenizer.encode(group)
            group, characters = [], 0
        group.append(part)
        characters += len(part)
    yield from tokenizer.encode(group)


def _parts(text: str) -> list[str]:
    """A text in pieces that the tokenizer takes without needing many times their memory; cut at line ends."""
    parts: list[str] = []
    start = 0
    while len(text) - start > _PART_CHARACTERS:
        end = text.rfind("\n", start, start + _PART_CHARACTERS) + 1 or start + _PART_CHARACTERS
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]


def _with_added_tokens(ids: NDArray[np.int32], tokenizer: Tokenizer) -> NDArray[np.int32]:
    """What the tokenizer itself adds, no BOS twice, and one end-of-text mark."""
    before = list(tokenizer.added_before)
    if before and before[-1] == tokenizer.bos_id == ids[0]:
        before.pop()
    after = list(tokenizer.added_after)
    last = after[-1] if after else ids[-1]
    if tokenizer.eos_id is not None and last != tokenizer.eos_id:
        after.append(tokenizer.eos_id)
    return np.concatenate([np.array(before, np.int32), ids, np.array(after, np.int32)])


def _encode_chats(
    rows: list[ChatRow], tokenizer: Tokenizer, train_on: TrainOn, problems: ProblemList
) -> Iterator[Encoded]:
    _require_chats(tokenizer)
    if marks_answers(tokenizer):
        for row in rows:
            try:
                ids, trained = tokenizer.encode_marked(row.messages)
            except _TEMPLATE_FAILURES as error:
                _note(row, error, problems)
                continue
            yield Encoded(row, ids, trained | (train_on is TrainOn.ALL))
        return
    rendered: list[tuple[ChatRow, str, list[tuple[int, int]]]] = []
    for row in rows:
        try:
            if train_on is TrainOn.ALL:
                text = tokenizer.render(row.messages)
                spans = [(0, len(text))]
            else:
                text, spans = render_chat(tokenizer, row.messages)
        except _TEMPLATE_FAILURES as error:
            _note(row, error, problems)
            continue
        rendered.append((row, text, spans))
    encodings = tokenizer.encode_with_offsets([text for _, text, _ in rendered])
    for (row, _, spans), encoding in zip(rendered, encodings, strict=True):
        yield Encoded(row, encoding.ids, answer_tokens(encoding, spans))


# What a template raises on purpose, and what it runs into: templates are programs that come with models.
_TEMPLATE_FAILURES = (
    TemplateUnfit, TemplateError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError,
)  # fmt: skip


def _require_chats(tokenizer: Tokenizer) -> None:
    if not tokenizer.has_chat_template:
        raise refused("model.path", "the tokenizer has no chat template, which messages need", _NO_TEMPLATE_FIX)
    if not tokenizer.is_fast:
        message = "the tokenizer is a slow one, which does not tell the characters of its tokens"
        raise refused("model.path", message, "save it as a fast one (tokenizer.json) with transformers")


def _note(row: ChatRow, error: Exception, problems: ProblemList) -> None:
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, TemplateUnfit):
        message, fix = words, "set data.train_on to all, or use a template with {% generation %} marks"
    else:
        message = f"the chat template refuses the row: {words}"
        fix = "change the row's roles, for example put the system text into the first user turn"
    problems.add(message, fix=fix, file=row.file, line=row.line)
