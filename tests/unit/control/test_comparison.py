"""Runs side by side: the same axis for all, every difference of the specs and no other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.comparison import Axis
from horizon_app.control.comparison import Comparisons, spec_differences
from horizon_app.control.errors import BadQuery, RunNotFound
from horizon_app.control.history import History
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database
from tests.support.stores import add_measured_run, add_run, open_store

NAN = float("nan")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_store(tmp_path) as database:
        yield database


@pytest.fixture
def comparisons(database: Database, tmp_path: Path) -> Comparisons:
    return Comparisons(database, History(database, AppSettings(home=tmp_path)))


def measured(database: Database, losses: list[float], **changes: Any) -> str:
    steps = range(1, len(losses) + 1)
    series = {
        "train/loss": dict(zip(steps, losses, strict=True)),
        "train/tokens": {step: 512.0 * step for step in steps},
        "time/step": dict.fromkeys(steps, 0.5),
    }
    return add_measured_run(database, series, **changes)


def test_series_of_both_runs_lie_over_one_another(database: Database, comparisons: Comparisons) -> None:
    a, b = measured(database, [4.0, 3.0, NAN, 1.0]), measured(database, [5.0, 6.0])
    found = comparisons.compare([b, a], ["train/loss"])
    assert [run.id for run in found.runs] == [b, a]
    assert found.series["train/loss"][a].y == [4.0, 3.0, None, 1.0]
    assert found.series["train/loss"][b].x == [1.0, 2.0]
    assert found.nonfinite == {"train/loss": {a: [(3, "nan")]}}
    assert [(run.best_loss, run.best_loss_step, run.last_loss) for run in found.runs] == [(5.0, 1, 6.0), (1.0, 4, 1.0)]


def test_axis_of_tokens_and_of_seconds_grow_with_the_steps(database: Database, comparisons: Comparisons) -> None:
    runs = [measured(database, [4.0, 3.0, 2.0]), measured(database, [1.0])]
    by_tokens = comparisons.compare(runs, ["train/loss"], axis=Axis.TOKENS)
    by_seconds = comparisons.compare(runs, ["train/loss"], axis=Axis.SECONDS)
    assert by_tokens.series["train/loss"][runs[0]].x == [512.0, 1024.0, 1536.0]
    assert by_seconds.series["train/loss"][runs[0]].x == [0.5, 1.0, 1.5]
    assert by_seconds.series["train/loss"][runs[0]].step == [1, 2, 3]


def test_axis_that_a_run_did_not_record_is_refused_by_name(database: Database, comparisons: Comparisons) -> None:
    runs = [measured(database, [1.0]), add_measured_run(database, {"train/loss": {1: 1.0}})]
    with pytest.raises(BadQuery, match=f"{runs[1]} has recorded no train/tokens"):
        comparisons.compare(runs, ["train/loss"], axis=Axis.TOKENS)


def test_run_that_has_measured_nothing_yet_is_compared_all_the_same(
    database: Database, comparisons: Comparisons
) -> None:
    waiting, done = add_run(database), measured(database, [2.0])
    found = comparisons.compare([waiting, done], axis=Axis.TOKENS)
    assert set(found.series["train/loss"]) == {done}
    assert (found.runs[0].best_loss, found.runs[0].duration_s) == (None, None)


def test_lowest_loss_is_found_in_a_thinned_series(database: Database, comparisons: Comparisons) -> None:
    losses = [2.0 + step % 7 for step in range(3000)]
    losses[1234] = 0.5
    runs = [measured(database, losses), measured(database, [1.0])]
    found = comparisons.compare(runs, ["train/loss"], max_points=30)
    assert len(found.series["train/loss"][runs[0]].x) <= 30
    assert (found.runs[0].best_loss, found.runs[0].best_loss_step) == (0.5, 1235)


@pytest.mark.parametrize("count", [0, 1, 21])
def test_too_few_or_too_many_runs_are_refused_with_the_limits(count: int, comparisons: Comparisons) -> None:
    with pytest.raises(BadQuery, match="2 to 20"):
        comparisons.compare([f"r{number}" for number in range(count)])


def test_run_named_twice_is_refused(comparisons: Comparisons) -> None:
    with pytest.raises(BadQuery, match="twice: a"):
        comparisons.compare(["a", "b", "a"])


def test_all_unknown_runs_are_named(database: Database, comparisons: Comparisons) -> None:
    with pytest.raises(RunNotFound, match="no runs 'x', 'y'"):
        comparisons.compare(["x", measured(database, [1.0]), "y"])


def test_spec_differences_are_the_keys_that_are_not_the_same_in_all() -> None:
    base = {"name": "a", "model": {"path": "m"}, "training": {"betas": [0.9, 0.95], "epochs": None}, "data": {}}
    other = {"name": "b", "model": {"path": "m"}, "training": {"betas": [0.9, 0.99], "epochs": None}, "extra": 1}
    found = {one.key: one.values for one in spec_differences({"r": base, "s": other, "t": base})}
    assert found == {
        "training.betas": {"r": [0.9, 0.95], "s": [0.9, 0.99], "t": [0.9, 0.95]},
        "data": {"r": {}, "t": {}},
        "extra": {"s": 1},
    }
