"""Compares runs: overlaid series, the differences of their specs, a summary of each. Changes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from horizon_app.contracts.comparison import Axis, ComparedRun, ComparedSeries, Comparison, SpecDifference
from horizon_app.contracts.run_view import RunDetail, Series, SeriesAnswer
from horizon_app.control.errors import BadQuery, RunNotFound, RunsNotFound
from horizon_app.control.history import History
from horizon_app.control.metric_points import windows
from horizon_app.store.database import Database

FEWEST_RUNS, MOST_RUNS = 2, 20
_LABELS = {"name", "tags", "notes"}
_LOSS, _EVAL_LOSS, _SPEED = "train/loss", "eval/loss", "throughput/tokens_per_second"
_TOKENS, _STEP_TIME = "train/tokens", "time/step"


class Comparisons:
    """Reads several runs at once."""

    def __init__(self, database: Database, history: History) -> None:
        self._database = database
        self._history = history

    def compare(
        self,
        run_ids: Sequence[str],
        keys: Sequence[str] | None = None,
        *,
        max_points: int = 500,
        axis: Axis = Axis.STEP,
    ) -> Comparison:
        """Put runs side by side, with all their metrics where none is named. Raises BadQuery, RunsNotFound."""
        runs = self._runs(run_ids)
        answers = {run.id: self._history.series(run.id, keys, max_points=max_points) for run in runs}
        losses = {run.id: self._losses(run.id, answers[run.id], max_points) for run in runs}
        names = dict.fromkeys(key for answer in answers.values() for key, one in answer.series.items() if one.x)
        places = {run.id: self._places(run, answers[run.id], axis) for run in runs}
        return Comparison(
            runs=[_compared(run, losses[run.id]) for run in runs],
            axis=axis,
            series={
                key: {
                    run_id: _placed(answer.series[key], places[run_id])
                    for run_id, answer in answers.items()
                    if key in answer.series and answer.series[key].x
                }
                for key in names
            },
            nonfinite={
                key: found
                for key in names
                if (found := {i: answer.nonfinite[key] for i, answer in answers.items() if key in answer.nonfinite})
            },
            differences=spec_differences({run.id: run.spec for run in runs}),
        )

    def _runs(self, run_ids: Sequence[str]) -> list[RunDetail]:
        twice = sorted({run_id for run_id in run_ids if run_ids.count(run_id) > 1})
        if twice:
            raise BadQuery(field="ids", message=f"named twice: {', '.join(twice)}; name each run once")
        if not FEWEST_RUNS <= len(run_ids) <= MOST_RUNS:
            message = f"{len(run_ids)} given; name {FEWEST_RUNS} to {MOST_RUNS} runs, with commas between"
            raise BadQuery(field="ids", message=message)
        found: list[RunDetail] = []
        missing: list[str] = []
        for run_id in run_ids:
            try:
                found.append(self._history.run(run_id))
            except RunNotFound:
                missing.append(run_id)
        if missing:
            raise RunsNotFound(missing)
        return found

    def _losses(self, run_id: str, answer: SeriesAnswer, max_points: int) -> Mapping[str, Series]:
        """The losses, whatever keys were asked for; thinning keeps the lowest of each bucket, so of all."""
        missing = [key for key in (_LOSS, _EVAL_LOSS) if key not in answer.series]
        if not missing:
            return answer.series
        return {**answer.series, **self._history.series(run_id, missing, max_points=max_points).series}

    def _places(self, run: RunDetail, answer: SeriesAnswer, axis: Axis) -> Mapping[int, float] | None:
        """Optimizer step -> place on the axis; None where the steps are the axis. Raises BadQuery."""
        if axis is Axis.STEP:
            return None
        wanted = {step for one in answer.series.values() for step in one.x}
        key = _TOKENS if axis is Axis.TOKENS else _STEP_TIME
        places: dict[int, float] = {}
        total = 0.0
        for window in windows(self._database, run.id, [key], run.step):
            for step, value in window.series[key].points:
                # Tokens are counted from the run's beginning; the times of the steps are added up.
                total = total + (value or 0.0) if axis is Axis.SECONDS else value or total
                if step in wanted:
                    places[step] = total
        if wanted and not places:
            raise BadQuery(field="x", message=f"run {run.id} has recorded no {key}, so it has no {axis.value} axis")
        return places


def spec_differences(specs: Mapping[str, Mapping[str, Any]]) -> list[SpecDifference]:
    """The dotted keys that are not the same in all specs, with the value of each run that has the key."""
    flat = {run_id: flat_spec(spec) for run_id, spec in specs.items()}
    keys = dict.fromkeys(key for one in flat.values() for key in one if key not in _LABELS)
    differences: list[SpecDifference] = []
    for key in keys:
        values = {run_id: one[key] for run_id, one in flat.items() if key in one}
        first, *rest = values.values()
        if len(values) < len(flat) or any(value != first for value in rest):
            differences.append(SpecDifference(key=key, values=values))
    return differences


def flat_spec(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value of a spec."""
    found: dict[str, Any] = {}
    for key, value in spec.items():
        if isinstance(value, dict) and value:
            found |= flat_spec(cast(dict[str, Any], value), f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _placed(series: Series, places: Mapping[int, float] | None) -> ComparedSeries:
    if places is None:
        return ComparedSeries(step=series.x, x=[float(step) for step in series.x], y=series.y)
    kept = [(step, places[step], value) for step, value in zip(series.x, series.y, strict=True) if step in places]
    return ComparedSeries(step=[s for s, _, _ in kept], x=[x for _, x, _ in kept], y=[y for _, _, y in kept])


def _compared(run: RunDetail, losses: Mapping[str, Series]) -> ComparedRun:
    loss, best_step = _lowest(losses[_LOSS])
    return ComparedRun(
        id=run.id, name=run.name, state=run.state, reason=run.reason, model=run.model.name, device=run.device,
        started_at=run.started_at, duration_s=run.duration_s, step=run.step, total_steps=run.total_steps,
        best_loss=loss, best_loss_step=best_step, last_loss=run.metrics.get(_LOSS),
        best_eval_loss=_lowest(losses[_EVAL_LOSS])[0], tokens_per_second=run.metrics.get(_SPEED), metrics=run.metrics,
    )  # fmt: skip


def _lowest(series: Series) -> tuple[float | None, int | None]:
    finite = [(value, step) for step, value in zip(series.x, series.y, strict=True) if value is not None]
    return min(finite) if finite else (None, None)
