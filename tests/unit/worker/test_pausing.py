"""A run that holds between two steps: asked to, for want of room, without anybody who watches; and goes on."""

import dataclasses
import errno
import json
import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.commands import Command, ContinueRun, PauseRun, SaveCheckpoint, SetKnobs, StopRun
from horizon_app.contracts.events import CheckpointWritten, KnobChanged, LogWritten, MetricsRecorded, StateChanged
from horizon_app.contracts.knobs import AskedChange, Knob
from horizon_app.worker import event_sink
from horizon_app.worker.attendance import ATTENDED, Attendance
from horizon_app.worker.durable_files import AppendFile
from horizon_app.worker.parts import Builders
from horizon_app.worker.pause_request import PauseRequest
from horizon_app.worker.session import Session
from horizon_app.worker.stop_request import StopRequest
from tests.support.fake_engine import FakeEngine, fake_builders, fake_data, write_fake_model
from tests.support.run_folders import make_run_folder, read_journal, states, wait_until


def tell(run_dir: Path, *commands: Command) -> None:
    with (run_dir / "commands.jsonl").open("a") as file:
        file.write("".join(command.model_dump_json() + "\n" for command in commands))


@contextmanager
def running(run_dir: Path, builders: Builders, stop: StopRequest | None = None) -> Generator["Future[int]"]:
    """A session on a thread of its own, which is stopped where the test does not end it."""
    stop = stop or StopRequest()
    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread.submit(lambda: Session(run_dir, builders, stop).run())
        finally:
            stop.ask("the test is over", save=False)


def last_state(run_dir: Path) -> StateChanged | None:
    found = [event for event in read_journal(run_dir) if isinstance(event, StateChanged)]
    return found[-1] if found else None


def is_paused(run_dir: Path) -> bool:
    last = last_state(run_dir)
    return last is not None and last.state.value == "paused"


def steps_of(run_dir: Path) -> list[int]:
    return [event.step for event in read_journal(run_dir) if isinstance(event, MetricsRecorded)]


def saved(run_dir: Path) -> list[int]:
    return [event.step for event in read_journal(run_dir) if isinstance(event, CheckpointWritten)]


def paused_at(run_dir: Path, step: int, **pause: Any) -> Callable[[int], None]:
    """Asks for a pause while `step` is done, and lets the step end only when the command was read."""

    def before_step(now: int) -> None:
        if now == step:
            tell(run_dir, PauseRun(**pause))
            wait_until(lambda: "asked" in logged(run_dir), "the command is read")

    return before_step


def logged(run_dir: Path) -> str:
    return "\n".join(event.message for event in read_journal(run_dir) if isinstance(event, LogWritten))


def test_session_asked_to_pause_holds_after_that_step_and_goes_on_when_told(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 6}, checkpoint={"every": 0})
    with running(run_dir, fake_builders(paused_at(run_dir, 3, who="browser"))) as ended:
        wait_until(lambda: is_paused(run_dir), "it holds")
        last = last_state(run_dir)
        assert last is not None and last.reason == "paused by browser (after optimizer step 3)"
        assert saved(run_dir) == []
        tell(run_dir, ContinueRun())
        assert ended.result(20) == 0
    assert steps_of(run_dir) == [1, 2, 3, 4, 5, 6]
    assert states(run_dir) == ["running", "paused", "running", "finished"]


def test_session_asked_to_pause_while_it_starts_holds_before_its_first_step(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 3}, checkpoint={"every": 0})
    tell(run_dir, PauseRun(save=True, who="browser"))

    def data(*arguments: Any) -> Any:
        wait_until(lambda: "asked by browser to pause" in logged(run_dir), "the command is read")
        return fake_data(*arguments)

    with running(run_dir, dataclasses.replace(fake_builders(), data=data)) as ended:
        wait_until(lambda: is_paused(run_dir), "it holds")
        last = last_state(run_dir)
        assert last is not None and last.reason == "paused by browser (before the first optimizer step)"
        assert (steps_of(run_dir), saved(run_dir)) == ([], [])
        tell(run_dir, SaveCheckpoint())
        wait_until(lambda: "asked for a checkpoint" in logged(run_dir), "the command is read")
        tell(run_dir, ContinueRun())
        assert ended.result(20) == 0
    assert steps_of(run_dir) == [1, 2, 3]
    assert saved(run_dir) == [1, 3], "the checkpoint that was asked for during the pause is that of the next step"
    assert states(run_dir) == ["running", "paused", "running", "finished"]


def test_session_asked_to_pause_and_to_go_on_within_one_step_never_holds(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 4})

    def before_step(step: int) -> None:
        if step == 2:
            tell(run_dir, PauseRun(), ContinueRun())
            wait_until(lambda: "asked to go on" in logged(run_dir), "both are read")

    assert Session(run_dir, fake_builders(before_step), StopRequest()).run() == 0
    assert states(run_dir) == ["running", "finished"]


def test_session_asked_to_pause_with_a_checkpoint_writes_it_first(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 9}, checkpoint={"every": 0})
    with running(run_dir, fake_builders(paused_at(run_dir, 2, save=True))):
        wait_until(lambda: is_paused(run_dir), "it holds")
        assert saved(run_dir) == [2]


def test_paused_session_obeys_checkpoint_and_stop(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 9}, checkpoint={"every": 0})
    with running(run_dir, fake_builders(paused_at(run_dir, 2))) as ended:
        wait_until(lambda: is_paused(run_dir), "it holds")
        tell(run_dir, SaveCheckpoint())
        wait_until(lambda: saved(run_dir) == [2], "the checkpoint is written during the pause")
        tell(run_dir, StopRun(save=True))
        assert ended.result(20) == 0
    assert states(run_dir) == ["running", "paused", "stopped"]
    assert saved(run_dir) == [2]


def test_knobs_changed_while_a_session_is_paused_hold_from_the_step_with_which_it_goes_on(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 4}, checkpoint={"every": 0})
    wishes = ((Knob.PREFETCH_WINDOW, 5), (Knob.CHECKPOINT_EVERY, 3))
    asked = [AskedChange(number=n, knob=knob, value=value) for n, (knob, value) in enumerate(wishes, start=1)]
    with running(run_dir, fake_builders(paused_at(run_dir, 2))) as ended:
        wait_until(lambda: is_paused(run_dir), "it holds")
        tell(run_dir, SetKnobs(changes=asked), ContinueRun())
        assert ended.result(20) == 0
    answers = [event for event in read_journal(run_dir) if isinstance(event, KnobChanged)]
    assert {(one.knob, one.new, one.step) for one in answers} == {(knob, value, 3) for knob, value in wishes}
    assert saved(run_dir) == [3, 4]


def test_session_told_to_pause_at_its_last_step_finishes_when_it_goes_on(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 2})
    with running(run_dir, fake_builders(paused_at(run_dir, 2))) as ended:
        wait_until(lambda: is_paused(run_dir), "it holds")
        tell(run_dir, ContinueRun())
        assert ended.result(20) == 0
    assert states(run_dir)[-1] == "finished" and saved(run_dir) == [2]


def full_until(room: threading.Event) -> Callable[[Path], None]:
    """Writes models only once there is room, but for the first."""

    def save(folder: Path) -> None:
        if folder.name != ".2.partial" and not room.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_fake_model(folder)

    return save


def test_session_whose_disk_fills_at_a_checkpoint_holds_until_there_is_room_and_loses_no_step(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 9}, checkpoint={"every": 2})
    room = threading.Event()
    with running(run_dir, fake_builders(save=full_until(room))) as ended:
        wait_until(lambda: is_paused(run_dir), "it holds")
        last = last_state(run_dir)
        assert last is not None
        assert last.reason.startswith(f"{run_dir / 'checkpoints' / '4'}: No space left on device; it needs about 66 ")
        assert "are free on its disk; the checkpoint of step 2 is whole" in last.reason
        assert [path.name for path in (run_dir / "checkpoints").iterdir()] == ["2"]
        tell(run_dir, ContinueRun())
        wait_until(lambda: logged(run_dir).count("No space left on device") == 1, "it was tried again")
        assert is_paused(run_dir), "there is still no room"
        room.set()
        tell(run_dir, ContinueRun())
        assert ended.result(20) == 0
    assert steps_of(run_dir) == list(range(1, 10))
    assert states(run_dir) == ["running", "paused", "running", "finished"]
    assert saved(run_dir)[-1] == 9


def test_session_whose_disk_is_full_at_its_last_save_finishes_once_there_is_room(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 3}, checkpoint={"every": 0})
    room = threading.Event()
    with running(run_dir, fake_builders(save=full_until(room))) as ended:
        wait_until(lambda: is_paused(run_dir), "it holds with its last step in memory")
        room.set()
        tell(run_dir, ContinueRun())
        assert ended.result(20) == 0
    assert saved(run_dir) == [3] and states(run_dir)[-1] == "finished"


def test_session_whose_journal_cannot_be_written_holds_and_goes_on_by_itself_with_every_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 30})
    full, holds, append = threading.Event(), threading.Event(), AppendFile.append
    monkeypatch.setattr(event_sink, "_RETRY_S", 0.01)
    monkeypatch.setattr(FakeEngine, "settle", lambda _self: holds.set())

    def refuses(file: AppendFile, record: bytes) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(file, record)

    monkeypatch.setattr(AppendFile, "append", refuses)

    def before_step(step: int) -> None:
        if step == 3:
            full.set()
            sessions[0]._sink.log("info", "meets the full disk")
            wait_until(lambda: sessions[0]._sink.trouble, "the journal meets the full disk")

    sessions: list[Session] = [Session(run_dir, fake_builders(before_step), StopRequest())]
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(sessions[0].run)
        wait_until(holds.is_set, "it holds")
        full.clear()
        assert ended.result(20) == 0
    assert steps_of(run_dir) == list(range(1, 31))
    assert states(run_dir) == ["running", "paused", "running", "finished"]
    (paused,) = [e for e in read_journal(run_dir) if isinstance(e, StateChanged) and e.state.value == "paused"]
    assert "journal.jsonl: No space left on device; it needs " in paused.reason and "are free" in paused.reason


def test_paused_session_that_nobody_watches_saves_and_ends_as_stopped(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 9}, checkpoint={"every": 0})
    order = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps({**order, "orphan_pause_s": 0.0}))
    assert Session(run_dir, fake_builders(paused_at(run_dir, 4)), StopRequest()).run() == 0
    last = last_state(run_dir)
    assert last is not None and last.state.value == "stopped"
    assert last.reason == "was paused, and nobody watched it for 0 s after 4 of 9 steps, checkpoint of step 4 saved"
    assert saved(run_dir) == [4]


def test_attendance_counts_from_the_last_touch_and_not_the_time_the_machine_slept(tmp_path: Path) -> None:
    now = [100.0]
    attendance = Attendance(tmp_path, clock=lambda: now[0])
    now[0] += 50
    assert attendance.lonely_s() == 50
    (tmp_path / ATTENDED).touch()
    os.utime(tmp_path / ATTENDED, (1.0, 1.0))  # whatever the time of day says
    assert attendance.lonely_s() == 0
    now[0] += 7
    assert attendance.lonely_s() == 7


def test_pause_request_keeps_its_first_reason_and_one_wish_to_save() -> None:
    pause = PauseRequest()
    pause.ask("first", save=True)
    pause.ask("second")
    assert (pause.reason, pause.take_save(), pause.take_save()) == ("first", True, False)
    pause.lift()
    assert pause.reason == ""


def test_session_holds_only_after_its_engine_has_nothing_left_to_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 3})
    settled: list[bool] = []
    monkeypatch.setattr(FakeEngine, "settle", lambda _self: settled.append(is_paused(run_dir)))
    with running(run_dir, fake_builders(paused_at(run_dir, 2))):
        wait_until(lambda: is_paused(run_dir), "it holds")
    assert settled == [False]
