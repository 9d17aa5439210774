"""From facts to HTML: templates that escape everything, with the style sheet inside, so that one file is all."""

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from horizon_app.contracts.sizes import show_bytes
from horizon_app.control.reports.units import duration, number

_TEMPLATES = Path(__file__).parent / "templates"
_SLOTS = 6


def render(template: str, **facts: Any) -> str:
    """The document that a template makes of these facts."""
    return _environment().get_template(template).render(**facts)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "moment": _moment,
        "number": number,
        "duration": duration,
        "plain": _plain,
        "slot": _slot,
        "bytes": show_bytes,
    }
    return environment


def _moment(value: datetime | None) -> str:
    """A time with its zone, the same for every reader."""
    return "–" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _plain(value: Any) -> str:
    """A value of a spec: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _slot(number: int) -> str:
    """The classes of a curve's colour: six colours, then the same ones dashed."""
    return f"s{(number - 1) % _SLOTS + 1}{' dashed' if number > _SLOTS else ''}"
