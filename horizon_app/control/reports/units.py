"""Numbers as a report writes them."""

from collections.abc import Callable
from enum import StrEnum

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Unit(StrEnum):
    """What the numbers of a chart are."""

    NUMBER = "number"
    SHARE = "share"
    BYTES = "bytes"


def scale(unit: Unit, largest: float) -> float:
    """What one of the unit is that an axis up to `largest` is written in: round numbers of that are round on paper."""
    return float(1024 ** _byte_power(largest)) if unit is Unit.BYTES else 1.0


def writer(unit: Unit, largest: float) -> Callable[[float], str]:
    """How all numbers of one axis are written whose largest is this."""
    if unit is Unit.SHARE:
        return lambda value: f"{value * 100:.4g}%"
    if unit is Unit.BYTES:
        power = _byte_power(largest)
        return lambda value: f"{value / 1024**power:.4g} {_BYTE_UNITS[power]}"
    return number


def _byte_power(largest: float) -> int:
    return next((p for p in range(len(_BYTE_UNITS)) if largest < 1000 * 1024**p), len(_BYTE_UNITS) - 1)


def number(value: float | None) -> str:
    """A number of any size in few characters; a dash where there is none."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) < 1e-3 or abs(value) >= 1e9:
        return f"{value:.3g}".replace("e-0", "e-").replace("e+", "e").replace("e0", "e")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def duration(seconds: float | None) -> str:
    """A duration, for example 1 h 02 min or 4.2 s."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
