"""Charts as SVG paths and places of labels, in per mille and per cent of the chart. Pure; knows nothing of runs.

The picture is stretched to whatever width the page has, so it holds lines only; labels are text of the page beside it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from horizon_app.control.reports.units import Unit, number, scale, writer

_SIZE = 1000
_X_STEPS, _Y_STEPS = 8, 5
Point = tuple[float, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One curve. `points` rise in x; a value of None is a gap."""

    label: str
    slot: int
    points: Sequence[Point]
    faint: bool = False
    """Drawn weak and left out of the legend: what another line smooths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A place that all charts show."""

    x: float
    label: str
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A label of an axis, at so many per cent from the left or the bottom."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Path:
    """A line of the picture, in the coordinates of its view box."""

    d: str
    slot: int
    faint: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Legend:
    """A curve's name and its newest value."""

    label: str
    slot: int
    last: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart, ready to be written."""

    title: str
    x_label: str
    paths: list[Path]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    marks: list[Tick] = field(default_factory=list[Tick])
    mark_kinds: list[str] = field(default_factory=list[str])
    legend: list[Legend] = field(default_factory=list[Legend])


def draw(
    title: str, lines: Sequence[Line], *, unit: Unit = Unit.NUMBER, marks: Sequence[Mark] = (), x_label: str = "step",
    from_zero: bool = False,
) -> Chart | None:  # fmt: skip
    """A chart of these lines; None where they hold no number."""
    finite = [(x, y) for line in lines for x, y in line.points if y is not None]
    if not finite:
        return None
    x_low, x_high = _spread(min(x for x, _ in finite), max(x for x, _ in finite))
    low, high = _spread(0.0 if from_zero else min(y for _, y in finite), max(y for _, y in finite))
    if unit is Unit.SHARE:
        low, high = max(0.0, low), min(1.0, high)
    one = scale(unit, high)
    y_ticks = [tick * one for tick in nice_ticks(low / one, high / one, _Y_STEPS)]
    y_low, y_high = min(low, y_ticks[0]), max(high, y_ticks[-1])
    write = writer(unit, high)

    x_ticks = [x for x in nice_ticks(x_low, x_high, _X_STEPS) if x_low <= x <= x_high]

    def across(x: float) -> float:
        return (x - x_low) / (x_high - x_low)

    def up(y: float) -> float:
        return (y - y_low) / (y_high - y_low)

    seen = [mark for mark in marks if x_low <= mark.x <= x_high]
    measured = {line.slot: line for line in reversed(lines)}  # a smoothed line comes behind what it smooths
    return Chart(
        title=title,
        x_label=x_label,
        paths=[
            Path(
                d=_path([(across(x), None if y is None else up(y)) for x, y in line.points]),
                slot=line.slot,
                faint=line.faint,
            )
            for line in lines
        ],
        x_ticks=[Tick(at=100 * across(x), text=number(x)) for x in x_ticks],
        y_ticks=[Tick(at=100 * up(y), text=write(y)) for y in y_ticks],
        marks=[Tick(at=100 * across(mark.x), text=mark.label) for mark in seen],
        mark_kinds=[mark.kind for mark in seen],
        legend=[
            Legend(label=line.label, slot=line.slot, last=_last(measured[line.slot], write))
            for line in lines
            if not line.faint
        ],
    )


def nice_ticks(low: float, high: float, steps: int) -> list[float]:
    """Round numbers in about `steps` steps, 1, 2 or 5 times a power of ten apart, that enclose `low` and `high`."""
    raw = (high - low) / steps
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(index * step, digits) for index in range(first, last + 1)]


def _spread(low: float, high: float) -> tuple[float, float]:
    if high > low and math.isfinite(high - low):
        return low, high
    margin = max(abs(low) * 0.1, 1e-9) if low else 1.0
    return low - margin, low + margin


def _path(points: Sequence[tuple[float, float | None]]) -> str:
    """Moves and lines; a point alone between two gaps becomes a dot, by the round end of a line without length."""
    parts: list[str] = []
    pen_down = False
    for across, up in points:
        if up is None:
            pen_down = False
            continue
        place = f"{across * _SIZE:.1f} {(1 - up) * _SIZE:.1f}"
        parts.append(f"L{place}" if pen_down else f"M{place}L{place}")
        pen_down = True
    return "".join(parts)


def _last(line: Line, write: Callable[[float], str]) -> str:
    """The newest value, or that it was none."""
    value = line.points[-1][1] if line.points else None
    return write(value) if value is not None else "not finite" if line.points else "–"
