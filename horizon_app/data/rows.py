"""The kinds of rows that data is made of, each with the place it came from. Knows nothing of files and tokenizers."""

from dataclasses import dataclass
from typing import Any, cast

from xxhash import xxh3_64_intdigest

Message = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class TextRow:
    """A text to train on whole, or a part of a long one: parts follow each other."""

    file: str
    line: int
    text: str
    begins: bool = True
    """Whether the text begins here."""
    ends: bool = True
    """Whether the text ends here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRow:
    """A text to begin with, and the one that follows it."""

    file: str
    line: int
    prompt: str
    completion: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRow:
    """A conversation, in the shape that chat templates take."""

    file: str
    line: int
    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    answers_from: int = 0
    """Index of the first message whose words are trained, if they are the assistant's."""


Row = TextRow | PairRow | ChatRow


def content_digest(row: Row) -> int:
    """64 bits that depend on what the row says, and on nothing else: not its place, a tokenizer or a template."""
    if isinstance(row, TextRow):
        said = ["text", row.text]
    elif isinstance(row, PairRow):
        said = ["pair", row.prompt, row.completion]
    else:
        said = ["chat", *_flat(row.messages), *_flat(row.tools), str(row.answers_from)]
    return xxh3_64_intdigest("\0".join(said).encode("utf-8", "surrogatepass"))


def _flat(value: Any) -> list[str]:
    """All of a nested value as words; the order of an object's keys does not count."""
    if isinstance(value, dict):
        inside = cast(dict[str, Any], value)
        return ["{", *(word for key in sorted(inside) for word in (key, *_flat(inside[key]))), "}"]
    if isinstance(value, list):
        return ["[", *(word for item in cast(list[Any], value) for word in _flat(item)), "]"]
    return [f"{type(value).__name__}:{value}"]
