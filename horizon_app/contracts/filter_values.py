"""The value on the right of a filter's comparison: numbers, durations, times, sizes, words."""

import difflib
import math
import re
from datetime import UTC, date, datetime

from horizon_app.contracts.run_filter import NUMERIC, Ago, FieldKind, Operator, Value
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.sizes import parse_size

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COUNTS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_LONGEST_S = 100 * 366 * 86400.0
_YEARS = range(1900, 9999)
_EXPECTED = {
    FieldKind.TEXT: "a text",
    FieldKind.TAG: "a tag",
    FieldKind.STATE: "a state",
    FieldKind.NUMBER: "a number",
    FieldKind.METRIC: "a number",
    FieldKind.TIME: "a day such as 2026-11-30, a time such as 2026-11-30T18:00, or how long ago such as 7d",
    FieldKind.DURATION: "a duration such as 90s, 15m, 2h or 1h30m",
    FieldKind.SPEC: "a value",
    FieldKind.SPEC_SIZE: "a size such as 16MiB, or auto",
}


def expected(field: str, kind: FieldKind) -> str:
    """What a field is compared with, in words."""
    return "a number such as 135M or 7B" if field == "parameters" else _EXPECTED[kind]


def read(field: str, kind: FieldKind, operator: Operator, text: str, *, quoted: bool) -> Value:
    """The value that a text writes for a field. Raises ValueError with what was expected, and what to do."""
    ordered = operator not in ("=", "!=")
    if kind in (FieldKind.TEXT, FieldKind.TAG, FieldKind.STATE):
        if ordered:
            raise ValueError(f"{field} is no number and can't be compared by {operator}; write {field}:{text}, = or !=")
        return _state(text) if kind is FieldKind.STATE else text
    if kind is FieldKind.SPEC or (kind is FieldKind.SPEC_SIZE and text in ("auto", "null")):
        return _spec_value(field, operator, text, quoted=quoted)
    if kind is FieldKind.SPEC_SIZE:
        return float(parse_size(text))
    if kind is FieldKind.TIME:
        return _time(field, text, ordered=ordered)
    if kind is FieldKind.DURATION:
        seconds = _number(text) if _NUMBER.fullmatch(text) else _span(text)
        if seconds is None:
            raise ValueError(f"{expected(field, kind)} was expected, found {text[:60]!r}")
        return seconds
    assert kind in NUMERIC
    number = _number(text, counted=field == "parameters")
    if number is None:
        raise ValueError(f"{expected(field, kind)} was expected after {field} {operator}, found {text[:60]!r}")
    return number


def _state(text: str) -> str:
    words = [state.value for state in RunState]
    if text.lower() in words:
        return text.lower()
    near = difflib.get_close_matches(text.lower(), words, n=1)
    hint = f"did you mean {near[0]}?" if near else f"states are {', '.join(words)}"
    raise ValueError(f"there is no state {text[:60]!r}; {hint}")


def _number(text: str, *, counted: bool = False) -> float | None:
    factor = _COUNTS.get(text[-1:].lower(), 1.0) if counted else 1.0
    digits = text if factor == 1.0 else text[:-1]
    if not _NUMBER.fullmatch(digits):
        return None
    number = float(digits) * factor
    return number if math.isfinite(number) else None


def _span(text: str) -> float | None:
    """Seconds of `1h30m`; None for anything else."""
    if not re.fullmatch(f"(?:{_SPAN.pattern})+", text.lower()):
        return None
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _SPAN.findall(text.lower()))
    return seconds if math.isfinite(seconds) else None


def _time(field: str, text: str, *, ordered: bool) -> Value:
    seconds = _span(text)
    if seconds is not None:
        if not ordered:
            raise ValueError(f"{field} is hardly ever just so long ago; write {field} > {text} or {field} < {text}")
        if seconds > _LONGEST_S:
            raise ValueError(f"{text[:60]!r} is more than 100 years ago; write less")
        return Ago(seconds)
    try:
        found = date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{_EXPECTED[FieldKind.TIME]} was expected, found {text[:60]!r}") from None
    if found.year not in _YEARS:
        raise ValueError(f"the year {found.year} can't be meant; write one from {_YEARS[0]} to {_YEARS[-1]}")
    if not isinstance(found, datetime):
        return found
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _spec_value(field: str, operator: Operator, text: str, *, quoted: bool) -> Value:
    number = None if quoted else _number(text)
    if number is not None:
        return number
    if operator not in ("=", "!="):
        raise ValueError(f"a number was expected after {field} {operator}, found {text[:60]!r}")
    words: dict[str, bool | None] = {"true": True, "false": False, "null": None}
    return text if quoted else words.get(text, text)
