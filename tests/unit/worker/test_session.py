import dataclasses
import errno
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.commands import SaveCheckpoint, SetKnobs, StopRun
from horizon_app.contracts.events import (
    CheckpointWritten,
    FactNoted,
    KnobChanged,
    LogWritten,
    MetricsRecorded,
    RunOutcome,
)
from horizon_app.contracts.knobs import AskedChange, Knob, KnobValue
from horizon_app.contracts.run_spec import TrainingSpec
from horizon_app.contracts.run_state import RunState
from horizon_app.data.errors import DataStopped
from horizon_app.engine.errors import BuildStopped
from horizon_app.worker.parts import Builders
from horizon_app.worker.session import Session, optimizer_steps
from horizon_app.worker.stop_request import StopRequest
from tests.support.fake_engine import FakeData, FakeEngine, fake_builders, fake_data
from tests.support.run_folders import make_run_folder, read_journal, states, wait_until


def run_session(run_dir: Path, builders: Builders | None = None, stop: StopRequest | None = None) -> int:
    return Session(run_dir, builders or fake_builders(), stop or StopRequest()).run()


def facts(run_dir: Path) -> dict[str, dict[str, Any]]:
    return {event.kind: event.data for event in read_journal(run_dir) if isinstance(event, FactNoted)}


def outcome(run_dir: Path) -> RunOutcome:
    return RunOutcome.model_validate(facts(run_dir)["outcome"])


def logged(run_dir: Path) -> str:
    return "\n".join(event.message for event in read_journal(run_dir) if isinstance(event, LogWritten))


def saved_steps(run_dir: Path) -> list[int]:
    return [event.step for event in read_journal(run_dir) if isinstance(event, CheckpointWritten)]


def test_session_to_the_end_journals_every_fact_in_order(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 3})
    assert run_session(run_dir) == 0
    shape = [getattr(event, "kind", event.type) for event in read_journal(run_dir)]
    assert shape == [
        "data", "log", "plan", "state", "layout", "metrics", "metrics", "metrics", "checkpoint", "memory", "outcome",
        "state",
    ]  # fmt: skip
    assert states(run_dir) == ["running", "finished"]
    assert facts(run_dir)["plan"]["total_steps"] == 3
    assert facts(run_dir)["data"]["num_trained_tokens"] == 28
    assert facts(run_dir)["memory"]["device_blocks"] == 4
    assert json.loads((run_dir / "exit.json").read_text()) == {"exit_code": 0, "state": "finished", "reason": ""}


def test_session_outcome_holds_last_metrics_and_peaks(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 4})
    run_session(run_dir)
    found = outcome(run_dir)
    assert (found.state, found.optimizer_steps, found.peak.device_blocks) == (RunState.FINISHED, 4, 4)
    assert found.metrics["train/loss"] == 1.0
    assert found.seconds > 0


def test_session_saves_every_n_steps_and_keeps_the_newest(tmp_path: Path) -> None:
    run_dir = make_run_folder(
        tmp_path / "run", training={"optimizer_steps": 7}, checkpoint={"every": 2, "keep": 2}
    )  # fmt: skip
    run_session(run_dir)
    assert saved_steps(run_dir) == [2, 4, 6, 7]
    assert sorted(path.name for path in (run_dir / "checkpoints").iterdir()) == ["6", "7"]


def test_session_whose_last_step_is_a_checkpoint_writes_it_once(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 4}, checkpoint={"every": 2})
    run_session(run_dir)
    assert saved_steps(run_dir) == [2, 4]


def stop_at(step: int, ask: Callable[[], None]) -> Callable[[int], None]:
    def before_step(now: int) -> None:
        if now == step:
            ask()

    return before_step


def test_session_asked_to_stop_ends_after_that_step_and_saves(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run")
    stop = StopRequest()
    builders = fake_builders(stop_at(3, lambda: stop.ask("stopped by SIGTERM", save=True)))
    assert run_session(run_dir, builders, stop) == 0
    assert states(run_dir) == ["running", "stopped"]
    assert saved_steps(run_dir) == [3]
    assert outcome(run_dir).reason == "stopped by SIGTERM after 3 of 200 steps, checkpoint of step 3 saved"


def test_session_stopped_by_a_command_without_save_writes_no_model(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 1000})
    stop = StopRequest()

    def command() -> None:
        (run_dir / "commands.jsonl").write_text(StopRun(save=False).model_dump_json() + "\n")
        wait_until(lambda: stop.requested, "the command is read")

    assert run_session(run_dir, fake_builders(stop_at(2, command)), stop) == 0
    assert states(run_dir) == ["running", "stopped"]
    assert not (run_dir / "checkpoints").exists()
    assert outcome(run_dir).reason.endswith("after 2 of 1000 steps, nothing saved")


def watched_engine(before_step: Callable[[int], None]) -> tuple[Builders, list[FakeEngine]]:
    """Builders, and the engines that they will have built."""
    built: list[FakeEngine] = []

    def engine(_spec: Any, _model: Path, _disk: Path, sink: Any, _should_stop: Any) -> FakeEngine:
        built.append(FakeEngine(sink, before_step))
        return built[-1]

    return dataclasses.replace(fake_builders(), engine=engine), built


def changes(*asked: tuple[Knob, KnobValue]) -> SetKnobs:
    """One command; changes are counted from 1."""
    numbered = enumerate(asked, start=1)
    return SetKnobs(
        changes=[AskedChange(number=number, knob=knob, value=value, who="ada") for number, (knob, value) in numbered]
    )


def answers(run_dir: Path) -> list[tuple[int, str, KnobValue, int, str]]:
    """Number, knob, value, step and status of each answer."""
    found = [event for event in read_journal(run_dir) if isinstance(event, KnobChanged)]
    return [(one.number, one.knob.value, one.new, one.step, one.status.value) for one in found]


def test_session_hands_changed_knobs_to_its_engine_while_it_trains(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 3})
    command = changes((Knob.PREFETCH_WINDOW, "auto"), (Knob.POLICY, "lru"), (Knob.MAX_GPU_BLOCKS, 7))

    def ask() -> None:
        (run_dir / "commands.jsonl").write_text(command.model_dump_json() + "\n")
        wait_until(lambda: built[0]._asked.qsize() == 3, "the knobs reach the engine")

    builders, built = watched_engine(stop_at(2, ask))
    assert run_session(run_dir, builders) == 0
    assert answers(run_dir) == [
        (1, "prefetch_window", "auto", 3, "holds"), (2, "policy", "lru", 3, "holds"),
        (3, "max_gpu_blocks", 7, 3, "holds"),
    ]  # fmt: skip


def test_session_changed_before_there_is_an_engine_hands_over_each_change_in_order(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 1})
    builders, built = watched_engine(lambda step: None)
    session = Session(run_dir, builders, StopRequest())
    session._obey(changes((Knob.PREFETCH_WINDOW, 5), (Knob.POLICY, "clock"), (Knob.PREFETCH_WINDOW, 0)))
    session.run()
    assert built[0].requests == [("prefetch_window", 5), ("policy", "clock"), ("prefetch_window", 0)]
    assert [step for _, _, _, step, _ in answers(run_dir)] == [1, 1, 1]


def test_session_whose_engine_refuses_a_change_says_why_and_goes_on(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 2})
    session = Session(run_dir, fake_builders(), StopRequest())
    session._obey(changes((Knob.MAX_GPU_BLOCKS, 1)))
    assert session.run() == 0
    assert answers(run_dir) == [(1, "max_gpu_blocks", 1, 1, "refused")]


def test_session_saves_after_other_steps_once_the_interval_is_changed(tmp_path: Path) -> None:
    run_dir = make_run_folder(
        tmp_path / "run", training={"optimizer_steps": 9}, checkpoint={"every": 2, "keep": 9}
    )  # fmt: skip
    session: list[Session] = []

    def ask() -> None:
        session[0]._obey(changes((Knob.CHECKPOINT_EVERY, 3)))

    session.append(Session(run_dir, fake_builders(stop_at(4, ask)), StopRequest()))
    assert session[0].run() == 0
    assert answers(run_dir) == [(1, "checkpoint.every", 3, 5, "holds")]
    assert saved_steps(run_dir) == [2, 4, 6, 9]


def test_session_without_eval_data_and_prompts_refuses_their_intervals_by_name(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 2})
    session = Session(run_dir, fake_builders(), StopRequest())
    session._obey(changes((Knob.EVALUATION_EVERY, 1), (Knob.SAMPLES_EVERY, 1)))
    assert session.run() == 0
    assert [status for *_, status in answers(run_dir)] == ["refused", "refused"]
    messages = [event.message for event in read_journal(run_dir) if isinstance(event, KnobChanged)]
    assert "data.eval_fraction" in messages[0] and "samples.prompts" in messages[1]


def test_session_gives_the_engine_the_folder_of_the_disk_tier(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 1})
    seen: list[Path] = []

    def engine(_spec: Any, _model: Path, disk_dir: Path, sink: Any, _should_stop: Any) -> FakeEngine:
        seen.append(disk_dir)
        return FakeEngine(sink, lambda step: None)

    run_session(run_dir, dataclasses.replace(fake_builders(), engine=engine))
    assert seen == [run_dir]


def test_session_stopped_while_reading_data_never_builds_an_engine(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run")
    stop = StopRequest()

    def data(*arguments: Any) -> Any:
        stop.ask("asked to stop", save=True)
        return fake_data(*arguments)

    def engine(*_: Any) -> Any:
        raise AssertionError("built although the run was stopped")

    assert run_session(run_dir, dataclasses.replace(fake_builders(), data=data, engine=engine), stop) == 0
    assert states(run_dir) == ["stopped"]


@pytest.mark.parametrize(("part", "doing"), [("data", "reading the data"), ("engine", "building the engine")])
def test_session_whose_parts_heed_a_stop_is_stopped_in_the_middle_of_them(
    part: str, doing: str, tmp_path: Path
) -> None:
    run_dir = make_run_folder(tmp_path / "run")
    stop = StopRequest()

    def heeds(*arguments: Any) -> Any:
        should_stop = arguments[-1]
        assert not should_stop()
        stop.ask("stopped by SIGTERM", save=True)
        assert should_stop()
        raise DataStopped if part == "data" else BuildStopped("asked to stop")

    assert run_session(run_dir, dataclasses.replace(fake_builders(), **{part: heeds}), stop) == 0
    assert states(run_dir) == ["stopped"]
    assert outcome(run_dir).reason == f"stopped by SIGTERM while {doing}, nothing saved"


def test_session_that_is_to_stop_reads_no_checkpoint_to_its_end(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 2})
    run_session(run_dir)
    stop = StopRequest()
    stop.ask("stopped by SIGTERM", save=True)
    assert run_session(run_dir, stop=stop) == 0
    assert states(run_dir) == ["running", "finished", "stopped"]
    assert outcome(run_dir).reason == "stopped by SIGTERM while looking for checkpoints, which are as they were"


def test_session_stopped_during_its_last_step_is_finished(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 2})
    stop = StopRequest()
    run_session(run_dir, fake_builders(stop_at(2, lambda: stop.ask("asked", save=False))), stop)
    assert states(run_dir) == ["running", "finished"]
    assert saved_steps(run_dir) == [2]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"data": "broken.txt"}, "reading the data: broken.txt line 3: not UTF-8 at byte 17"),
        ({"model": "broken"}, "building the engine: the model in broken has 3 layers of 0 parameters"),
    ],
)
def test_session_with_unusable_input_fails_with_the_reason(names: dict[str, str], reason: str, tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", **names)
    assert run_session(run_dir) == 1
    assert states(run_dir) == ["failed"]
    assert outcome(run_dir).reason == reason
    assert json.loads((run_dir / "exit.json").read_text())["exit_code"] == 1


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), SystemExit(3), MemoryError()])
def test_session_whose_step_raises_fails_with_step_and_whole_trace(error: BaseException, tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 9})

    def raises() -> None:
        raise error

    assert run_session(run_dir, fake_builders(stop_at(4, raises))) == 1
    assert states(run_dir) == ["running", "failed"]
    assert outcome(run_dir).reason.startswith("training optimizer step 4 of 9: ")
    assert outcome(run_dir).optimizer_steps == 3
    assert "Traceback (most recent call last)" in logged(run_dir)
    assert type(error).__name__ in logged(run_dir)


def test_session_without_an_order_fails_and_says_which_file(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert run_session(tmp_path / "run") == 1
    assert "run.json can't be read" in outcome(tmp_path / "run").reason


def full_at(number: int) -> Callable[[Path], None]:
    """Writes models until the disk is full at save `number`."""
    saves: list[Path] = []

    def save(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(bytes(64))
        saves.append(folder)
        if len(saves) == number:
            raise OSError(errno.ENOSPC, "No space left on device")

    return save


def test_session_stopped_while_its_disk_is_full_fails_with_the_numbers_and_goes_on_later(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 9}, checkpoint={"every": 2})
    stop = StopRequest()
    builders = fake_builders(stop_at(4, lambda: stop.ask("asked to stop", save=True)), save=full_at(2))
    assert run_session(run_dir, builders, stop) == 1
    assert [path.name for path in (run_dir / "checkpoints").iterdir()] == ["2"]
    reason = outcome(run_dir).reason
    place = run_dir / "checkpoints" / "4"
    assert reason.startswith(
        f"writing the checkpoint of optimizer step 4: {place}: No space left on device; it needs about 66 bytes, "
    )
    assert "are free on its disk; the checkpoint of step 2 is whole; free some space, then resume the run" in reason
    assert run_session(run_dir) == 0
    assert facts(run_dir)["resumed"]["step"] == 2
    assert outcome(run_dir).optimizer_steps == 9


def test_session_that_goes_on_does_the_steps_behind_its_checkpoint_again(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 7}, checkpoint={"every": 3})

    def dies() -> None:
        raise RuntimeError("a bug")

    run_session(run_dir, fake_builders(stop_at(6, dies)))
    assert run_session(run_dir) == 0
    steps = [event.step for event in read_journal(run_dir) if isinstance(event, MetricsRecorded)]
    assert steps == [1, 2, 3, 4, 5, 4, 5, 6, 7]
    assert states(run_dir) == ["running", "failed", "running", "finished"]


def test_session_that_goes_on_without_a_checkpoint_begins_again(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 3})
    stop = StopRequest()
    run_session(run_dir, fake_builders(stop_at(2, lambda: stop.ask("asked", save=False))), stop)
    assert run_session(run_dir) == 0
    assert facts(run_dir)["resumed"] == {"step": 0, "total_steps": 3}


def test_session_that_goes_on_over_more_steps_says_what_becomes_of_the_learning_rate(tmp_path: Path) -> None:
    training = {"optimizer_steps": 4, "warmup_steps": 0, "learning_rate": 0.1, "schedule": "linear"}
    run_dir = make_run_folder(tmp_path / "run", training=training)
    run_session(run_dir)
    order = json.loads((run_dir / "run.json").read_text())
    order["spec"]["training"]["optimizer_steps"] = 8
    (run_dir / "run.json").write_text(json.dumps(order))
    assert run_session(run_dir) == 0
    (note,) = [event for event in read_journal(run_dir) if isinstance(event, FactNoted) and event.kind == "resumed"]
    assert note.data["changed"] == {"training.optimizer_steps": {"old": 4, "new": 8}}
    assert (note.data["old_learning_rate"], note.data["new_learning_rate"]) == pytest.approx((0.025, 0.05))
    assert "linear schedule as if it had been planned over 8 steps" in note.message
    assert outcome(run_dir).optimizer_steps == 8


def test_session_whose_data_changed_since_the_checkpoint_is_refused_with_both_fingerprints(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 4}, checkpoint={"every": 2})
    run_session(run_dir)

    def other_data(*_: Any) -> FakeData:
        return FakeData(fingerprint="0bad")

    assert run_session(run_dir, dataclasses.replace(fake_builders(), data=other_data)) == 1
    assert (
        "the data have changed since the checkpoint of step 4 (fingerprint fa4e then, 0bad now)"
        in outcome(run_dir).reason
    )


def test_session_asked_for_a_checkpoint_writes_one_of_its_next_step(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 4}, checkpoint={"every": 0})
    sessions: list[Session] = []

    def command() -> None:
        (run_dir / "commands.jsonl").write_text(SaveCheckpoint().model_dump_json() + "\n")
        wait_until(sessions[0]._wishes.save.is_set, "the command is read")

    sessions.append(Session(run_dir, fake_builders(stop_at(2, command)), StopRequest()))
    assert sessions[0].run() == 0
    assert saved_steps(run_dir) == [2, 4]


def test_session_without_room_for_a_checkpoint_fails_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 4})
    monkeypatch.setattr(FakeEngine, "checkpoint_bytes", 1 << 60)
    assert run_session(run_dir) == 1
    assert states(run_dir) == ["failed"]
    assert "a checkpoint needs 1,152,921,504,611,041,280 bytes" in outcome(run_dir).reason
    assert "no checkpoint was written yet" in outcome(run_dir).reason


def test_session_whose_folder_is_deleted_ends_itself_and_does_not_bring_it_back(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 10_000})
    sessions: list[Session] = []

    def delete() -> None:
        shutil.rmtree(run_dir, ignore_errors=True)
        shutil.rmtree(run_dir, ignore_errors=True)
        wait_until(lambda: sessions[0]._heartbeat.unwanted, "the missing folder is noticed")

    sessions.append(Session(run_dir, fake_builders(stop_at(2, delete)), StopRequest()))
    assert sessions[0].run() == 1
    assert sessions[0]._steps_done == 2
    assert not run_dir.exists()


def test_session_closes_its_engine_also_after_a_failure(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run")

    def raises(step: int) -> None:
        raise ValueError(step)

    builders, built = watched_engine(raises)
    run_session(run_dir, builders)
    assert built[0].closed.is_set()


def test_session_whose_engine_cannot_say_its_peaks_still_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: FakeEngine) -> Any:
        raise RuntimeError("the arena is gone")

    monkeypatch.setattr(FakeEngine, "peaks", broken)
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 1})
    assert run_session(run_dir) == 0
    assert outcome(run_dir).peak.resident_bytes > 0


def test_session_copies_what_libraries_warn_about_into_the_journal(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 1})
    library = logging.getLogger("some.library")
    run_session(run_dir, fake_builders(lambda step: library.warning("step %d is odd", step)))
    assert "step 1 is odd" in logged(run_dir)
    assert not any(type(handler).__name__ == "JournalLogHandler" for handler in logging.getLogger().handlers)


def test_session_records_residency_frames_of_one_length(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 5})
    run_session(run_dir)
    assert (run_dir / "residency.bin").read_bytes().startswith(b"HZRF")
    assert len([event for event in read_journal(run_dir) if isinstance(event, MetricsRecorded)]) == 5


@pytest.mark.parametrize(
    ("training", "steps"),
    [
        ({"epochs": 2, "global_batch_size": 2}, 4),
        ({"epochs": 0.6, "global_batch_size": 1}, 3),
        ({"optimizer_steps": 7}, 7),
        ({}, 200),
    ],
)
def test_optimizer_steps_follow_steps_epochs_or_the_default(training: dict[str, float], steps: int) -> None:
    assert optimizer_steps(TrainingSpec.model_validate(training), FakeData()) == steps
