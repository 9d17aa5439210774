import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horizon_app.contracts.events import FactNoted, LogWritten, MetricsRecorded
from horizon_app.contracts.residency import Direction, FrameHeader, MapId, decode_frame, encode_frame
from horizon_app.worker import residency_recording
from horizon_app.worker.event_sink import EventSink
from tests.support.fake_engine import fake_frame, fake_layout
from tests.support.run_folders import read_journal, wait_until


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def full_disk(*_: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_journal_line_is_on_disk_before_the_sink_is_closed(tmp_path: Path) -> None:
    sink = EventSink(tmp_path)
    sink.log("info", "hello")
    wait_until(lambda: read_journal(tmp_path), "the line is in the file")
    assert isinstance(read_journal(tmp_path)[0], LogWritten)
    sink.close()


def test_journal_with_torn_last_line_keeps_whole_lines_and_drops_the_torn_one(tmp_path: Path) -> None:
    first = EventSink(tmp_path)
    first.log("info", "one")
    first.log("info", "x" * 200_000)
    first.close()
    whole = (tmp_path / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(whole + b'{"type":"log","mess' + b"y" * 100_000)
    second = EventSink(tmp_path)
    second.log("info", "three")
    second.close()
    content = (tmp_path / "journal.jsonl").read_bytes()
    assert content.startswith(whole)
    assert [event.message[:5] for event in read_journal(tmp_path) if isinstance(event, LogWritten)] == [
        "one", "xxxxx", "three",
    ]  # fmt: skip


def test_journal_that_is_one_torn_line_starts_empty(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b'{"type"')
    EventSink(tmp_path).close()
    assert (tmp_path / "journal.jsonl").read_bytes() == b""


def test_metrics_with_nonfinite_values_become_null_and_a_flag(tmp_path: Path) -> None:
    sink = EventSink(tmp_path)
    sink.metrics(3, {"train/loss": float("nan"), "train/grad_norm": float("-inf"), "time/step": 0.5})
    sink.close()
    event = read_journal(tmp_path)[0]
    assert isinstance(event, MetricsRecorded)
    assert event.values == {"train/loss": None, "train/grad_norm": None, "time/step": 0.5}
    assert event.nonfinite == {"train/loss": "nan", "train/grad_norm": "-inf"}
    assert sink.last_metrics == event.values


def test_note_with_values_json_does_not_know_is_written_as_number_or_text(tmp_path: Path) -> None:
    sink = EventSink(tmp_path)
    sink.note("plan", "a path", {"path": Path("somewhere"), "share": float("inf"), "count": np.int64(3)})
    sink.close()
    event = read_journal(tmp_path)[0]
    assert isinstance(event, FactNoted)
    assert event.data == {"path": "somewhere", "share": None, "count": 3}


def test_log_with_an_unknown_level_counts_as_info(tmp_path: Path) -> None:
    sink = EventSink(tmp_path)
    sink.log("shout", "hey")
    sink.close()
    event = read_journal(tmp_path)[0]
    assert isinstance(event, LogWritten)
    assert event.level == "info"


def test_layout_fact_holds_the_whole_layout(tmp_path: Path) -> None:
    sink = EventSink(tmp_path)
    sink.layout(fake_layout())
    sink.close()
    event = read_journal(tmp_path)[0]
    assert isinstance(event, FactNoted)
    assert event.kind == "layout"
    assert event.data == fake_layout().model_dump(mode="json")


def test_residency_is_wanted_five_times_a_second_and_no_more(tmp_path: Path) -> None:
    clock = Clock()
    sink = EventSink(tmp_path, clock)
    taken = 0
    for _ in range(100):
        if sink.wants_residency():
            sink.residency(fake_frame(1))
            taken += 1
            wait_until(lambda: not sink._frame_waits, "the frame is written")
        clock.now += 0.02
    sink.close()
    assert taken == 10
    assert (tmp_path / "residency.bin").read_bytes().count(b"HZRF") == 10


def test_residency_frame_that_waits_for_the_writer_makes_the_next_unwanted(tmp_path: Path) -> None:
    clock = Clock()
    sink = EventSink(tmp_path, clock)
    sink._frame_waits = True
    clock.now += 10
    assert not sink.wants_residency()
    sink.close()


def test_residency_recording_with_a_torn_frame_is_cut_to_whole_frames(tmp_path: Path) -> None:
    frame = fake_frame(1)
    (tmp_path / "residency.bin").write_bytes(frame + frame[:7])
    record(tmp_path, fake_frame(2))
    assert recorded_steps(tmp_path) == [1, 2]


def record(run_dir: Path, *frames: bytes) -> None:
    sink = EventSink(run_dir)
    for frame in frames:
        sink.residency(frame)
    sink.close()


def recorded_steps(run_dir: Path) -> list[int]:
    content, length = (run_dir / "residency.bin").read_bytes(), len(fake_frame(1))
    assert len(content) % length == 0
    return [decode_frame(content[at : at + length])[0].step for at in range(0, len(content), length)]


def test_residency_recording_of_a_run_that_goes_on_keeps_the_steps_before(tmp_path: Path) -> None:
    record(tmp_path, *(fake_frame(step) for step in (1, 2, 2, 3, 3, 4)))
    record(tmp_path, fake_frame(3), fake_frame(4))
    assert recorded_steps(tmp_path) == [1, 2, 2, 3, 4]
    record(tmp_path, fake_frame(9))
    assert recorded_steps(tmp_path) == [1, 2, 2, 3, 4, 9]


def test_residency_recording_that_is_full_loses_every_second_frame_of_its_older_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residency_recording, "MOST_BYTES", 8 * len(fake_frame(1)))
    record(tmp_path, *(fake_frame(step) for step in range(1, 10)))
    assert recorded_steps(tmp_path) == [1, 3, 5, 6, 7, 8, 9]
    record(tmp_path, *(fake_frame(step) for step in range(10, 41)))
    steps = recorded_steps(tmp_path)
    assert steps[0] == 1 and steps[-4:] == [37, 38, 39, 40] and steps == sorted(steps) and len(steps) <= 8
    record(tmp_path, fake_frame(39))
    assert recorded_steps(tmp_path) == [step for step in steps if step < 39] + [39]


def test_residency_recording_that_can_not_be_thinned_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residency_recording, "MOST_BYTES", 2 * len(fake_frame(1)))
    (tmp_path / ".residency.bin.partial").mkdir()
    record(tmp_path, fake_frame(1), fake_frame(2), fake_frame(3), fake_frame(4))
    assert recorded_steps(tmp_path) == [1, 2]


def test_residency_recording_with_other_blocks_begins_anew(tmp_path: Path) -> None:
    header = FrameHeader(
        time_us=1, step=1, compute_step=0, stage=0, direction=Direction.FORWARD, window=3, num_blocks=99, slots_used=1
    )
    (tmp_path / "residency.bin").write_bytes(encode_frame(header, {MapId.HOST: bytes(99)}) * 3)
    record(tmp_path, fake_frame(2))
    assert recorded_steps(tmp_path) == [2]


def test_sink_knows_at_which_step_a_metric_was_measured(tmp_path: Path) -> None:
    sink = EventSink(tmp_path)
    sink.metrics(4, {"eval/loss": 2.5, "train/loss": float("nan")})
    sink.metrics(5, {"train/loss": 1.0})
    found = [sink.measured("eval/loss", 4), sink.measured("eval/loss", 5), sink.measured("train/loss", 4)]
    assert found == [2.5, None, None]
    assert not sink.goes_on
    sink.close()
    later = EventSink(tmp_path)
    assert later.goes_on
    later.close()


def test_residency_that_cannot_be_written_is_logged_once_and_dropped(tmp_path: Path) -> None:
    (tmp_path / "residency.bin").mkdir()
    sink = EventSink(tmp_path)
    for _ in range(3):
        sink.residency(fake_frame(1))
    sink.log("info", "still here")
    wait_until(lambda: len(read_journal(tmp_path)) == 2, "both lines are written")
    assert sink.close()
    messages = {event.message for event in read_journal(tmp_path) if isinstance(event, LogWritten)}
    assert len(messages) == 2
    assert any("residency frames are lost" in message for message in messages)


def test_journal_on_a_full_disk_waits_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = EventSink(tmp_path)
    real_write, failures = os.write, [0]

    def torn_then_full(fd: int, content: Any) -> int:
        failures[0] += 1
        if failures[0] == 1:
            return real_write(fd, bytes(content)[:10])
        return full_disk() if failures[0] < 3 else real_write(fd, content)

    monkeypatch.setattr(os, "write", torn_then_full)
    sink.log("info", "first")
    sink.log("info", "second")
    assert sink.close()
    lines = (tmp_path / "journal.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["first", "second"]
    assert failures[0] >= 4


def test_close_on_a_disk_that_stays_full_gives_up_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = EventSink(tmp_path)
    monkeypatch.setattr(os, "write", full_disk)
    sink.log("info", "lost")
    assert not sink.close(timeout_s=0.05)
    monkeypatch.undo()
    assert (tmp_path / "journal.jsonl").read_bytes() == b""
