"""What is read from packed chunks is what is in the rows, whatever was recorded, again, and forgotten."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from horizon_app.contracts.events import metrics_event
from horizon_app.store.database import Transaction
from horizon_app.store.downsample import bucket_width, first_of_each, thin
from horizon_app.store.metric_chunks import CHUNK_STEPS, Metrics
from horizon_app.store.metrics import Flag, StoredSeries, forget_metrics, record_metrics, series
from horizon_app.store.tables import MetricChunkTable, MetricTable
from tests.support.stores import add_run, open_store

KEYS = ("train/loss", "eval/loss")
LAST_STEP = 6 * CHUNK_STEPS
steps = st.integers(0, LAST_STEP) | st.sampled_from([n * CHUNK_STEPS + d for n in range(6) for d in (0, 1, 31, 32)])
values = st.floats(width=32) | st.sampled_from([0.0, 1.0, math.nan, math.inf, -math.inf])


@st.composite
def stretches(draw: st.DrawFn) -> list[tuple[int, dict[str, float]]]:
    """Steps that follow each other at some distance, with the values of one metric or of both."""
    first, stride, count = draw(steps), draw(st.sampled_from([1, 1, 3, 50, 700])), draw(st.integers(1, 1200))
    keys = draw(st.sampled_from([KEYS, KEYS[:1], KEYS[1:]]))
    pattern = draw(st.lists(values, min_size=1, max_size=50))
    return [
        (first + number * stride, dict.fromkeys(keys, pattern[number * 7 % len(pattern)])) for number in range(count)
    ]


changes = st.lists(stretches() | steps, min_size=1, max_size=6)
"""What happens to a run, in turn: steps that are recorded, or a step behind which all is forgotten."""


def from_rows(tx: Transaction, run_id: str, key: str, first: int, last: int, most: int) -> StoredSeries:
    """What `series` promises, from the points alone."""
    points = Metrics(tx=tx, run_id=run_id, keys=[key], packed_until=0).points(first, last)[key]
    finite = np.isfinite(points.values)
    kept, odd = points, points.where(~finite)
    if len(points.steps) > most:
        width = bucket_width(int(points.steps[0]), int(points.steps[-1]), most)
        kept, odd = thin(points.where(finite), width), first_of_each(odd, width)
    return StoredSeries(
        steps=kept.steps.tolist(),
        values=[value if math.isfinite(value) else None for value in kept.values.tolist()],
        nonfinite=[(step, _flag(value)) for step, value in zip(odd.steps.tolist(), odd.values.tolist(), strict=True)],
    )


def _flag(value: float) -> Flag:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def packed_steps_equal_rows(tx: Transaction, run_id: str) -> None:
    """Every point before the end of a metric's last chunk is in a chunk, and nothing else is."""
    for key in KEYS:
        chunks = tx.execute(
            select(MetricChunkTable.chunk, MetricChunkTable.points)
            .where(MetricChunkTable.run_id == run_id, MetricChunkTable.key == key)
            .order_by(MetricChunkTable.chunk)
        ).all()
        until = (chunks[-1].chunk + 1) * CHUNK_STEPS if chunks else 0
        rows = tx.execute(
            select(MetricTable.step).where(MetricTable.run_id == run_id, MetricTable.key == key).order_by("step")
        ).scalars()
        packed = [
            chunk * CHUNK_STEPS + int.from_bytes(content[at : at + 2], "little")
            for chunk, content in chunks
            for at in range(0, len(content), 10)
        ]
        assert packed == [step for step in rows if step < until]


@settings(max_examples=30)
@given(changes=changes, ends=st.tuples(steps, steps), most=st.sampled_from([3, 30, 100, 1000, 5000]))
def test_series_from_chunks_equals_series_from_points(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[int | list[tuple[int, dict[str, float]]]],
    ends: tuple[int, int],
    most: int,
) -> None:
    with open_store(tmp_path_factory.getbasetemp() / "chunks") as database:
        run_id = add_run(database)
        for change in changes:
            with database.write() as tx:
                if isinstance(change, int):
                    forget_metrics(tx, run_id, after=change)
                else:
                    record_metrics(tx, run_id, [metrics_event(step, found) for step, found in change])
        with database.read() as tx:
            packed_steps_equal_rows(tx, run_id)
            whole = (0, 10 * LAST_STEP**2)
            for first, last in (whole, (min(ends), max(ends))):
                found = series(tx, run_id, KEYS, first=first, last=last, max_points=most)
                assert found == {key: from_rows(tx, run_id, key, first, last, most) for key in KEYS}


def test_one_step_in_ten_thousand_is_in_the_answer_at_any_width(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = add_run(database)
        curve = [metrics_event(step, {"a": 99.0 if step == 6543 else 1.0}) for step in range(1, 10_001)]
        with database.write() as tx:
            record_metrics(tx, run_id, curve)
        with database.read() as tx:
            for most in (3, 10, 100, 333, 1000, 9999):
                found = series(tx, run_id, ["a"], first=None, last=None, max_points=most)["a"]
                assert (6543, 99.0) in found.points and found.steps[-1] == 10_000 and len(found.steps) <= most
