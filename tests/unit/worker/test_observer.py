"""Evaluation and samples of a session, around the fake engine: when they come, and what they never do."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.events import LogWritten, MetricsRecorded, SampleGenerated, StateChanged
from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.engine.errors import BadBatch
from horizon_app.worker.parts import Builders
from horizon_app.worker.session import Session
from horizon_app.worker.stop_request import StopRequest
from tests.support.fake_engine import FakeData, FakeEngine, fake_builders
from tests.support.run_folders import make_run_folder, read_journal, states

SAMPLES = {"every": 3, "prompts": ["ab", "c"]}


def run(
    run_dir: Path, *, held_out: int = 2, stop: StopRequest | None = None,
    before_step: Callable[[int], None] = lambda step: None, engine: Callable[..., FakeEngine] | None = None,
) -> int:  # fmt: skip
    builders: Builders = dataclasses.replace(
        fake_builders(before_step), data=lambda *_: FakeData(num_eval_sequences=held_out)
    )
    if engine is not None:
        builders = dataclasses.replace(
            builders, engine=lambda _spec, _model, _disk, sink, _stop: engine(sink, before_step)
        )
    return Session(run_dir, builders, stop or StopRequest()).run()


def evaluated(run_dir: Path) -> dict[int, dict[str, float | None]]:
    found = [event for event in read_journal(run_dir) if isinstance(event, MetricsRecorded)]
    return {event.step: event.values for event in found if "eval/loss" in event.values}


def samples(run_dir: Path) -> list[tuple[int, str, str]]:
    return [(e.step, e.prompt, e.text) for e in read_journal(run_dir) if isinstance(e, SampleGenerated)]


def test_evaluation_comes_every_n_steps_and_at_the_end_once(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 5}, evaluation={"every": 2})
    assert run(run_dir) == 0
    found = evaluated(run_dir)
    assert list(found) == [2, 4, 5]
    assert found[4]["eval/loss"] == pytest.approx(2 / 5)
    assert found[4]["eval/perplexity"] == pytest.approx(2.718281828 ** (2 / 5))
    run_dir = make_run_folder(tmp_path / "even", training={"optimizer_steps": 4}, evaluation={"every": 2})
    run(run_dir)
    assert list(evaluated(run_dir)) == [2, 4]


@pytest.mark.parametrize(("held_out", "every"), [(0, 1), (3, 0)])
def test_evaluation_without_held_out_data_or_switched_off_never_comes(
    held_out: int, every: int, tmp_path: Path
) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 3}, evaluation={"every": every})
    assert run(run_dir, held_out=held_out) == 0
    assert evaluated(run_dir) == {}


def test_evaluation_is_given_up_when_the_run_is_to_stop(tmp_path: Path) -> None:
    """It may take minutes, and a stop is promised within the grace time."""
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 50}, evaluation={"every": 1})
    stop = StopRequest()
    run(run_dir, stop=stop, before_step=lambda step: stop.ask("asked to stop", save=True) if step == 3 else None)
    assert states(run_dir) == ["running", "stopped"]
    assert list(evaluated(run_dir)) == [1, 2]


def test_samples_come_with_their_prompts_every_n_steps_and_at_the_end(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 4}, samples=SAMPLES)
    assert run(run_dir) == 0
    assert samples(run_dir) == [(3, "ab", "ab\x03"), (3, "c", "c\x03"), (4, "ab", "ab\x04"), (4, "c", "c\x04")]


def test_samples_that_the_engine_refuses_end_with_a_warning_and_training_goes_on(tmp_path: Path) -> None:
    class Refusing(FakeEngine):
        def generate(self, prompts: Sequence[Sequence[int]], *_: Any, **__: Any) -> Any:
            raise BadBatch("the prompt has 900 tokens, but the model has 512 positions; shorten it")

    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 7}, samples=SAMPLES)
    assert run(run_dir, engine=Refusing) == 0
    warnings = [e.message for e in read_journal(run_dir) if isinstance(e, LogWritten) and e.level == "warning"]
    assert [line for line in warnings if "no samples are written" in line and "900 tokens" in line] == [warnings[-1]]
    assert states(run_dir) == ["running", "finished"]


def test_a_failing_evaluation_says_what_was_being_done(tmp_path: Path) -> None:
    class Failing(FakeEngine):
        def evaluate(self, batches: Any) -> Any:
            raise BadBatch("the held-out data has no trained token to measure the loss on")

    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 2}, evaluation={"every": 1})
    assert run(run_dir, engine=Failing) == 1
    (last,) = [event for event in read_journal(run_dir) if isinstance(event, StateChanged)][-1:]
    assert last.reason.startswith("measuring after optimizer step 1 of 2: the held-out data has no trained token")


@pytest.mark.parametrize(
    ("sections", "field"),
    [
        ({"every": 5}, "samples"),
        ({"every": 5, "prompts": ["  "]}, "samples.prompts.0"),
        ({"every": -1}, "samples.every"),
        ({"temperature": -0.5}, "samples.temperature"),
        ({"top_p": 0.0}, "samples.top_p"),
    ],
)
def test_samples_that_make_no_sense_are_refused_by_field(sections: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecRefused) as refused:
        parse_spec({"model": {"path": "m"}, "data": {"path": "d"}, "samples": sections})
    assert [problem.field for problem in refused.value.errors] == [field]
