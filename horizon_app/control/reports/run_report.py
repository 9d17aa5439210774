"""The report of one run: what it was, how it went, what changed, what is left of it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from horizon_app.contracts.events import FactNoted
from horizon_app.contracts.frames import Frame
from horizon_app.contracts.knobs import KnobChange, KnobStatus
from horizon_app.contracts.run_view import RunDetail, Series, SeriesAnswer
from horizon_app.control.comparison import flat_spec, spec_differences
from horizon_app.control.errors import RunNotFound
from horizon_app.control.history import TIMELINE_TYPES, History
from horizon_app.control.metric_points import windows
from horizon_app.control.reports.curves import Chart, Line, Mark, draw
from horizon_app.control.reports.environment import environment_facts
from horizon_app.control.reports.page import render
from horizon_app.control.reports.smoothing import smoothed
from horizon_app.control.reports.units import Unit
from horizon_app.store.database import Database
from horizon_app.store.knobs import changes_of

_LOSS = "train/loss"
_POINTS = 900
_ODD_STEPS = 20
_EVENTS = 300
_LOG_LINES = 60
_PLANS: tuple[tuple[str, Unit, bool, tuple[tuple[str, str], ...]], ...] = (
    ("Tokens per second", Unit.NUMBER, True, (("throughput/tokens_per_second", "tokens/s"),)),
    ("Prefetch", Unit.SHARE, True, (("prefetch/hit_rate", "hit rate"), ("prefetch/optimal_hit_rate", "optimum"))),
    (
        "Memory by tier", Unit.BYTES, True,
        (("tier/device_bytes", "device"), ("tier/host_bytes", "host"), ("tier/disk_bytes", "disk")),
    ),
    ("Learning rate", Unit.NUMBER, True, (("train/learning_rate", "learning rate"),)),
    ("Gradient norm", Unit.NUMBER, True, (("train/grad_norm", "gradient norm"),)),
    ("Time per step", Unit.NUMBER, True, (("time/step", "seconds"), ("time/stall", "of them waiting for blocks"))),
)  # fmt: skip
"""Title, unit, whether the axis begins at zero, metrics with their names."""


def run_report(database: Database, history: History, run: RunDetail) -> str:
    """The report as one HTML document."""
    with database.read() as tx:
        changes = changes_of(tx, run.id)
    events, _ = history.events(run.id, limit=5000, types=TIMELINE_TYPES)
    marks = _marks(changes, events)
    return render(
        "run.html.j2",
        run=run,
        written_at=datetime.now(UTC),
        charts=[chart for chart in _charts(database, history, run, marks) if chart is not None],
        checks=history.checks(run.id).checks,
        changes=changes,
        parent=_parent(history, run),
        spec=_by_section(run.spec),
        events=events[-_EVENTS:],
        events_left_out=max(0, len(events) - _EVENTS),
        log=history.logs(run.id, limit=_LOG_LINES).lines,
        environment=environment_facts(),
    )


def _marks(changes: Sequence[KnobChange], events: Sequence[Frame]) -> list[Mark]:
    """Where a knob changed, by the number that the table of changes has, and where another worker went on."""
    knobs = [
        Mark(x=change.step, label=str(change.number), kind="knob")
        for change in changes
        if change.status is KnobStatus.HOLDS and change.step is not None
    ]
    resumed = [
        Mark(x=step, label="resumed", kind="resumed")
        for event in events
        if isinstance(event, FactNoted) and event.kind == "resumed" and isinstance(step := event.data.get("step"), int)
    ]
    return [*knobs, *resumed]


def _charts(database: Database, history: History, run: RunDetail, marks: list[Mark]) -> Iterator[Chart | None]:
    keys = [_LOSS, "eval/loss", *(key for *_, metrics in _PLANS for key, _ in metrics)]
    answer = history.series(run.id, keys, max_points=_POINTS, superseded=True)
    odd = [Mark(x=step, label=flag, kind="odd") for step, flag in answer.nonfinite.get(_LOSS, [])[:_ODD_STEPS]]
    yield draw("Loss", _loss_lines(database, run, answer), marks=[*marks, *odd])
    for title, unit, from_zero, metrics in _PLANS:
        lines = [
            Line(label=name, slot=slot, points=_points(answer.series[key]))
            for slot, (key, name) in enumerate(metrics, start=1)
            if any(value is not None for value in answer.series[key].y)
        ]
        yield draw(title, lines, unit=unit, marks=marks, from_zero=from_zero)


def _loss_lines(database: Database, run: RunDetail, answer: SeriesAnswer) -> list[Line]:
    every = (point for window in windows(database, run.id, [_LOSS], run.step) for point in window.series[_LOSS].points)
    lines = [
        Line(label="train", slot=1, points=_points(answer.series[_LOSS]), faint=True),
        Line(label="train", slot=1, points=smoothed(every, run.step)),
    ]
    if answer.series["eval/loss"].x:
        lines.append(Line(label="eval", slot=2, points=_points(answer.series["eval/loss"])))
    abandoned = [part.series[_LOSS] for part in answer.superseded if _LOSS in part.series]
    return [*lines, *(Line(label="abandoned", slot=3, points=_points(one), faint=True) for one in abandoned)]


def _points(series: Series) -> list[tuple[float, float | None]]:
    return [(float(x), y) for x, y in zip(series.x, series.y, strict=True)]


def _parent(history: History, run: RunDetail) -> Mapping[str, Any] | None:
    """The run that this one was cloned from, and where the specs differ; None where there is none any more."""
    if run.cloned_from is None:
        return None
    try:
        parent = history.run(run.cloned_from)
    except RunNotFound:
        return None
    return {"run": parent, "differences": spec_differences({parent.id: parent.spec, run.id: run.spec})}


def _by_section(spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Section -> key -> value; what has no section stands under an empty name."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in flat_spec(spec).items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    return sections
