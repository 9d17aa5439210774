"""A line of numbers in the height of one line of text."""

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None]) -> str:
    """A character for each value, from the lowest to the highest; a space where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, span = min(known), max(known) - min(known)
    return "".join(" " if value is None else _BARS[_height(value - low, span)] for value in values)


def _height(above: float, span: float) -> int:
    return min(len(_BARS) - 1, int(above / span * len(_BARS))) if span > 0 else 0
