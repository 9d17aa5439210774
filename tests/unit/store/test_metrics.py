"""Rows of metrics and checkpoints."""

import math
from functools import partial
from pathlib import Path

import pytest

from horizon_app.contracts.events import CheckpointWritten, metrics_event
from horizon_app.store.checkpoints import checkpoints_of, forget_checkpoint, record_checkpoint
from horizon_app.store.metrics import metric_keys, record_metrics, series
from tests.support.stores import add_run, open_store

pytestmark = pytest.mark.usefixtures("any_database")


def test_series_keeps_gaps_and_flags_where_it_is_short(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        events = [metrics_event(step, {"loss": float("nan") if step == 2 else 1.0 / step}) for step in (1, 2, 3)]
        with database.write() as tx:
            record_metrics(tx, run_id, events)
        with database.read() as tx:
            found = series(tx, run_id, ["loss", "nothing"], first=None, last=None, max_points=10)
            assert metric_keys(tx, run_id) == ["loss"]
    assert found["loss"].points == [(1, 1.0), (2, None), (3, 1.0 / 3)]
    assert found["loss"].nonfinite == [(2, "nan")]
    assert found["nothing"].points == []


def test_series_is_thinned_and_cut_to_the_steps_asked_for(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        events = [metrics_event(step, {"loss": 50.0 if step == 700 else 1.0}) for step in range(1, 1001)]
        with database.write() as tx:
            record_metrics(tx, run_id, events)
        with database.read() as tx:
            whole = series(tx, run_id, ["loss"], first=None, last=None, max_points=60)["loss"].points
            part = series(tx, run_id, ["loss"], first=690, last=710, max_points=60)["loss"].points
    assert len(whole) <= 60 and (700, 50.0) in whole and whole[-1][0] == 1000
    assert [step for step, _ in part] == list(range(690, 711))


def test_series_read_together_are_what_each_is_alone(tmp_path: Path) -> None:
    events = [
        metrics_event(step, {"wave": math.sin(step), "saw": math.nan if step % 997 == 0 else step % 13})
        for step in range(1, 3001)
    ]
    events += [metrics_event(step, {"rare": float(step)}) for step in range(5, 3001, 200)]
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        with database.write() as tx:
            record_metrics(tx, run_id, events)
        with database.read() as tx:
            for first, last, most in ((None, None, 30), (100, 2900, 60), (None, None, 1000), (1500, 2100, 12)):
                ask = partial(series, tx, run_id, first=first, last=last, max_points=most)
                together = ask(["wave", "saw", "rare"])
                assert together == {key: ask([key])[key] for key in together}
                assert all(0 < len(one.steps) <= most for one in together.values())
            flags = series(tx, run_id, ["wave", "saw"], first=None, last=None, max_points=30)
    assert (flags["wave"].nonfinite, flags["saw"].nonfinite) == ([], [(997, "nan"), (1994, "nan"), (2991, "nan")])


def test_step_recorded_again_by_a_later_attempt_replaces_the_first(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        with database.write() as tx:
            record_metrics(tx, run_id, [metrics_event(1, {"loss": 9.0})])
            record_metrics(tx, run_id, [metrics_event(1, {"loss": float("inf")}), metrics_event(1, {"loss": 3.0})])
        with database.read() as tx:
            found = series(tx, run_id, ["loss"], first=None, last=None, max_points=10)["loss"]
    assert (found.points, found.nonfinite) == ([(1, 3.0)], [])


def test_checkpoint_written_again_is_one_and_removed_ones_are_forgotten(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        with database.write() as tx:
            for step, size in ((10, 1), (20, 2), (10, 3)):
                record_checkpoint(tx, run_id, CheckpointWritten(step=step, path=f"checkpoints/{step}", bytes=size))
            forget_checkpoint(tx, run_id, 20)
        with database.read() as tx:
            assert [(c.step, c.bytes) for c in checkpoints_of(tx, run_id)] == [(10, 3)]


def test_metric_names_are_found_without_looking_at_every_point(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id, other = add_run(database), add_run(database)
        with database.write() as tx:
            for run in (run_id, other):
                record_metrics(tx, run, [metrics_event(1, dict.fromkeys(("b", "a", run), 1.0))])
        with database.read() as tx:
            assert metric_keys(tx, run_id) == sorted(["a", "b", run_id])
            assert metric_keys(tx, "20260101-000000-abcdef") == []
