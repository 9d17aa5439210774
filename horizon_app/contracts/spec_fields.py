"""Field types of the run spec: sizes with units, words, and values that this version can't run yet."""

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.functional_validators import AfterValidator

from horizon_app.contracts.sizes import format_size, parse_size


def _keep_auto(value: object) -> object:
    return value if value == "auto" or value is None else parse_size(value)


def _show_size(value: object) -> object:
    return format_size(value) if isinstance(value, int) else value


_SIZE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*[0-9.]+\s*([KkMmGg][Ii])?[Bb]?\s*$"},
        {"type": "integer", "minimum": 1},
    ]
}
Size = Annotated[
    int, BeforeValidator(parse_size), PlainSerializer(_show_size, return_type=str | int), WithJsonSchema(_SIZE_SCHEMA)
]
SizeOrAuto = Annotated[
    int | str,
    BeforeValidator(_keep_auto),
    PlainSerializer(_show_size, return_type=str | int),
    WithJsonSchema({"anyOf": [{"const": "auto"}, *_SIZE_SCHEMA["anyOf"]]}),
]


def _number(value: object) -> float:
    """The number that a value of YAML or JSON stands for (YAML 1.1 reads `1e5` as text); NaN where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan


WIDEST_WINDOW = 64
"""Compute steps that a prefetch window reaches at most."""


def _window(value: object) -> object:
    number = _number(value)
    if value == "auto":
        return value
    if not number.is_integer() or not 0 <= number <= WIDEST_WINDOW:
        raise ValueError(f"{value!r} is neither auto nor a whole number of compute steps from 0 to {WIDEST_WINDOW}")
    return int(number)


WindowOrAuto = Annotated[
    int | Literal["auto"],
    BeforeValidator(_window),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "const": "auto"},
                {"type": "integer", "minimum": 0, "maximum": WIDEST_WINDOW},
            ]
        }
    ),
]


def _scale(value: object) -> object:
    number = _number(value)
    if value == "dynamic":
        return value
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"{value!r} is neither dynamic nor a number above 0")
    return number


LossScale = Annotated[
    float | Literal["dynamic"],
    BeforeValidator(_scale),
    WithJsonSchema({"anyOf": [{"type": "string", "const": "dynamic"}, {"type": "number", "exclusiveMinimum": 0}]}),
]


def _word(value: object) -> object:
    """YAML 1.1 reads bare `off` and `on` as booleans; give the words back."""
    if value is True:
        return "on"
    return "off" if value is False else value


Word = BeforeValidator(_word)


class NotAvailableYet(ValueError):
    """A value of the spec whose machinery is not part of this version."""


def later(*values: object, instead: str) -> AfterValidator:
    """Refuse `values` by name: they are part of the spec, but this version can't run them.

    `instead` says what to write now.
    """

    def check(value: Any) -> Any:
        if value in values:
            raise NotAvailableYet(f"{_plain(value)} is not available yet; use {instead}")
        return value

    return AfterValidator(check)


def only_now(accept: Callable[[Any], bool], what: str, instead: str) -> AfterValidator:
    """Refuse every value that `accept` does not take, as not available yet."""

    def check(value: Any) -> Any:
        if not accept(value):
            raise NotAvailableYet(f"{what} ({_plain(value)}) is not available yet; use {instead}")
        return value

    return AfterValidator(check)


def _plain(value: object) -> str:
    return value.value if isinstance(value, StrEnum) else str(value)


def knob(
    default: Any,
    description: str,
    *,
    unit: str = "",
    title: str = "",
    main: bool = False,
    live: bool = False,
    unavailable: tuple[str, ...] = (),
    **bounds: Any,
) -> Any:
    """A field of the spec with what the form needs: unit, whether it is a main knob, what can't be chosen yet."""
    extra: dict[str, Any] = {"x-unit": unit, "x-main": main, "x-live": live, "x-unavailable": list(unavailable)}
    return Field(default, description=description, title=title or None, json_schema_extra=extra, **bounds)


class Section(BaseModel):
    """A part of the spec: frozen, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)
