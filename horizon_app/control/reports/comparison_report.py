"""The report of several runs side by side."""

from datetime import UTC, datetime

from horizon_app.contracts.comparison import Axis, Comparison
from horizon_app.control.reports.curves import Chart, Line, draw
from horizon_app.control.reports.page import render
from horizon_app.control.reports.smoothing import smoothed
from horizon_app.control.reports.units import Unit

_FIRST = ("train/loss", "eval/loss", "throughput/tokens_per_second", "prefetch/hit_rate")
"""The metrics that lead; the others follow by name."""
_MANY_POINTS = 200
_X_LABELS = {Axis.STEP: "step", Axis.TOKENS: "tokens", Axis.SECONDS: "seconds"}


def comparison_report(comparison: Comparison) -> str:
    """The report as one HTML document."""
    keys = [key for key in _FIRST if key in comparison.series]
    keys += sorted(key for key in comparison.series if key not in _FIRST)
    charts = [_chart(comparison, key) for key in keys]
    return render(
        "comparison.html.j2",
        comparison=comparison,
        written_at=datetime.now(UTC),
        charts=[chart for chart in charts if chart is not None],
        keys=keys,
    )


def _chart(comparison: Comparison, key: str) -> Chart | None:
    lines: list[Line] = []
    for slot, run in enumerate(comparison.runs, start=1):
        found = comparison.series[key].get(run.id)
        if found is None:
            continue
        points = [*zip(found.x, found.y, strict=True)]
        if len(points) >= _MANY_POINTS:  # lines as wild as that hide each other
            lines.append(Line(label=run.name, slot=slot, points=points, faint=True))
            points = smoothed(points, len(points))
        lines.append(Line(label=run.name, slot=slot, points=points))
    return draw(key, lines, unit=_unit(key), x_label=_X_LABELS[comparison.axis])


def _unit(key: str) -> Unit:
    if key.endswith("_bytes"):
        return Unit.BYTES
    return Unit.SHARE if key.startswith("prefetch/") and key.endswith("_rate") else Unit.NUMBER
