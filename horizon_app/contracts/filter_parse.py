"""From the text of a filter to its terms.

either  = all ("or" all)*          all  = term (["and"] term)*          term = "not" term | "(" either ")" | leaf
leaf    = word | "quoted text" | field ":" value | field ("<" | "<=" | ">" | ">=" | "=" | "!=") value
"""

import difflib
import re
from dataclasses import dataclass
from typing import NoReturn, cast

from horizon_app.contracts import filter_values
from horizon_app.contracts.run_filter import (
    FIELDS,
    AllOf,
    AnyOf,
    Comparison,
    FieldKind,
    Filter,
    FilterRefused,
    Holds,
    Not,
    Operator,
    Words,
    field_kind,
    spec_keys,
)

MOST_CHARACTERS = 4000
MOST_TERMS = 100
MOST_DEPTH = 30

_SPACE = re.compile(r"\s*")
_OPERATOR = re.compile(r"<=|>=|!=|[<>=:]")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_WORD = re.compile(r'(?:[^\s()"<>=:!]|!(?!=))+')
_VALUE = re.compile(r'[^\s()"]+')
"""After an operator a word goes on through signs, as in `device:cuda:0` or a time."""
_JOINS = ("and", "or", "not")


def parse_filter(text: str) -> Filter | None:
    """The filter that a text writes; None where it holds nothing. Raises FilterRefused."""
    if len(text) > MOST_CHARACTERS:
        message = f"the filter has {len(text)} characters; {MOST_CHARACTERS} is the most"
        raise FilterRefused(column=MOST_CHARACTERS + 1, message=message)
    if "\0" in text:
        raise FilterRefused(column=text.index("\0") + 1, message="a NUL character", fix="leave it out")
    return _Reader(text).whole()


@dataclass
class _Reader:
    """A place in the text, moving to its end."""

    text: str
    place: int = 0
    terms: int = 0
    depth: int = 0

    def whole(self) -> Filter | None:
        if self._at_end():
            return None
        found = self._either()
        if not self._at_end():
            self._refuse("')' closes nothing", 'leave it out, or put it in quotes to search for it: ")"')
        return found

    def _either(self) -> Filter:
        terms = [self._all()]
        while self._take_join("or"):
            terms.append(self._all())
        return terms[0] if len(terms) == 1 else AnyOf(tuple(terms))

    def _all(self) -> Filter:
        terms = [self._term()]
        while self._take_join("and") or not (self._at_end() or self._sees(")") or self._join() == "or"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else AllOf(tuple(terms))

    def _term(self) -> Filter:
        if self._at_end():
            self._refuse("a term was expected, the filter ends here", "add one, or put and, or, not in quotes")
        if self._take_join("not"):
            with self._deeper():
                return Not(self._term())
        if self._sees("("):
            return self._group()
        join = self._join()
        if join is not None:
            self._refuse(f"a term was expected, found {join!r}", f'to search for the word, write "{join}"')
        self.terms += 1
        if self.terms > MOST_TERMS:
            self._refuse(f"more than {MOST_TERMS} terms", "use fewer")
        return self._leaf()

    def _group(self) -> Filter:
        opened = self.place
        self.place += 1
        if self._sees(")"):
            self._refuse("a term was expected, found ')'", 'to search for brackets, put them in quotes: "()"', opened)
        with self._deeper():
            found = self._either()
        if not self._sees(")"):
            self._refuse("'(' is not closed", 'add ")", or put it in quotes to search for it', opened)
        self.place += 1
        return found

    def _leaf(self) -> Filter:
        start = self.place
        if self._sees('"'):
            return Words(self._quoted())
        match = _WORD.match(self.text, self.place)
        if match is None:
            sign = self._operator() or self.text[self.place]
            self._refuse(f"a word or a field was expected, found {sign!r}", f'to search for it, write "{sign}"')
        self.place = match.end()
        operator = self._operator()
        if operator is None:
            return Words(match.group())
        kind = field_kind(match.group())
        if kind is None:
            self._refuse_field(match.group(), operator, start)
        self.place += len(operator)
        return self._about(match.group(), kind, operator)

    def _about(self, field: str, kind: FieldKind, operator: str) -> Filter:
        self._skip()
        start = self.place
        quoted = self._sees('"')
        match = _VALUE.match(self.text, self.place)
        if quoted:
            text = self._quoted()
        elif match is None:
            self._refuse(f"{filter_values.expected(field, kind)} was expected after {field} {operator}", "add it")
        else:
            text = match.group()
            self.place = match.end()
        asked = cast(Operator, "=" if operator == ":" else operator)
        try:
            value = filter_values.read(field, kind, asked, text, quoted=quoted)
        except ValueError as error:
            head, _, fix = str(error).partition("; ")
            self._refuse(head, fix, start)
        if operator == ":" and isinstance(value, str) and kind in (FieldKind.TEXT, FieldKind.SPEC):
            return Holds(field, text)
        return Comparison(field, asked, value)

    def _quoted(self) -> str:
        match = _QUOTED.match(self.text, self.place)
        if match is None:
            self._refuse("the quotation mark is not closed", 'add another " behind the text, or leave this one out')
        if not match.group(1):
            self._refuse("nothing stands between the quotation marks", "write a text there, or leave them out")
        self.place = match.end()
        return match.group(1).replace('""', '"')

    def _operator(self) -> str | None:
        self._skip()
        match = _OPERATOR.match(self.text, self.place)
        return match.group() if match else None

    def _join(self) -> str | None:
        self._skip()
        match = _WORD.match(self.text, self.place)
        if match is None or match.group().lower() not in _JOINS:
            return None
        after = _OPERATOR.match(self.text, _end_of_space(self.text, match.end()))
        return None if after else match.group().lower()

    def _take_join(self, join: str) -> bool:
        if self._join() != join:
            return False
        self.place += len(join)
        return True

    def _sees(self, sign: str) -> bool:
        self._skip()
        return self.text.startswith(sign, self.place)

    def _at_end(self) -> bool:
        self._skip()
        return self.place == len(self.text)

    def _skip(self) -> None:
        self.place = _end_of_space(self.text, self.place)

    def _deeper(self) -> "_Depth":
        return _Depth(self)

    def _refuse_field(self, field: str, operator: str, start: int) -> NoReturn:
        names = [*FIELDS, *spec_keys()]
        near = difflib.get_close_matches(field.lower(), names, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FIELDS)}, metrics such as eval/loss, "
        hint += "" if near else "and keys of the spec such as training.learning_rate"
        end = self.place + len(operator)
        rest = _VALUE.match(self.text, end)
        typed = self.text[start : rest.end() if rest else end].replace('"', '""')
        self._refuse(
            f"there is no field {field[:60]!r}", f'{hint}; to search for the text, write "{typed[:80]}"', start
        )

    def _refuse(self, message: str, fix: str, place: int | None = None) -> NoReturn:
        raise FilterRefused(column=(self.place if place is None else place) + 1, message=message, fix=fix)


@dataclass
class _Depth:
    """Brackets and negations that are open."""

    reader: _Reader

    def __enter__(self) -> None:
        self.reader.depth += 1
        if self.reader.depth > MOST_DEPTH:
            message = f"more than {MOST_DEPTH} brackets and negations inside each other"
            raise FilterRefused(column=self.reader.place + 1, message=message, fix="use fewer")

    def __exit__(self, *_: object) -> None:
        self.reader.depth -= 1


def _end_of_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    assert match is not None, "no space is space too"
    return match.end()
