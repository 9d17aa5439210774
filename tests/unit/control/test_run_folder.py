"""The files of a run's folder, torn and whole."""

from pathlib import Path

import pytest

from horizon_app.contracts.commands import COMMAND, StopRun
from horizon_app.contracts.residency import decode_frame
from horizon_app.contracts.run_state import RunState
from horizon_app.control import run_folder as module
from horizon_app.control.errors import RunNotFound
from horizon_app.control.run_folder import RunFolder
from tests.support.scripted_worker import frame

RUN_ID = "20260101-000000-abcdef"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / RUN_ID).mkdir()
    return RunFolder(tmp_path, RUN_ID)


@pytest.mark.parametrize("run_id", ["..", "", "20260101-000000-abcdef/..", "20260101-000000-ABCDEF", "x\0"])
def test_id_that_is_none_never_becomes_a_path(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(RunNotFound):
        RunFolder(tmp_path, run_id)


def test_journal_is_read_by_whole_lines_and_goes_on_where_it_stopped(folder: RunFolder) -> None:
    assert folder.read_journal(0) == ([], 0)
    path = folder.path / "journal.jsonl"
    path.write_bytes(b"one\ntwo\nthr")
    assert folder.read_journal(0) == ([b"one", b"two"], 8)
    assert folder.read_journal(8) == ([], 8)
    path.write_bytes(b"one\ntwo\nthree\n")
    assert folder.read_journal(8) == ([b"three"], 14)


def test_journal_line_longer_than_a_read_comes_whole(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ_BYTES", 10)
    (folder.path / "journal.jsonl").write_bytes(b"a\n" + b"b" * 1000 + b"\nc\n")
    lines: list[bytes] = []
    start = 0
    while True:
        found, start = folder.read_journal(start)
        if not found:
            break
        lines += found
    assert lines == [b"a", b"b" * 1000, b"c"]


def test_frame_at_a_step_is_the_last_one_at_or_before_its_end(folder: RunFolder) -> None:
    assert folder.frame_at_step(None) is None and folder.newest_frame(0) == (0, None)
    steps = [2, 2, 3, 7, 9]
    torn = frame(10)[:-3]
    (folder.path / "residency.bin").write_bytes(b"".join(frame(step) for step in steps) + torn)
    found = {step: folder.frame_at_step(step) for step in (1, 2, 3, 6, 7, 8, 100)}
    assert found[1] is None
    assert [decode_frame(found[step] or b"")[0].step for step in (2, 3, 6, 7, 8, 100)] == [2, 3, 3, 7, 7, 9]
    assert folder.newest_frame(4) == (5, frame(9))
    assert folder.newest_frame(5) == (5, None)


@pytest.mark.parametrize("content", [b"", b"HZ", b"x" * 200])
def test_recording_that_is_none_gives_no_frame(folder: RunFolder, content: bytes) -> None:
    (folder.path / "residency.bin").write_bytes(content)
    assert folder.frame_at_step(None) is None


def test_commands_are_appended_as_lines(folder: RunFolder) -> None:
    folder.append_command(StopRun())
    folder.append_command(StopRun(save=False))
    lines = (folder.path / "commands.jsonl").read_bytes().splitlines()
    assert [COMMAND.validate_json(line) for line in lines] == [StopRun(), StopRun(save=False)]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"exit_code": 0, "state": "gone"}'])
def test_worker_files_that_can_not_be_read_tell_nothing(folder: RunFolder, content: str) -> None:
    (folder.path / "worker.json").write_text(content)
    (folder.path / "exit.json").write_text(content)
    assert folder.worker() is None and folder.last_words() is None


def test_last_words_are_read(folder: RunFolder) -> None:
    (folder.path / "exit.json").write_text('{"exit_code": 1, "state": "failed", "reason": "disk full"}')
    words = folder.last_words()
    assert words is not None
    assert (words.exit_code, words.state, words.reason) == (1, RunState.FAILED, "disk full")


def test_log_tail_is_the_last_lines(folder: RunFolder) -> None:
    assert folder.log_tail(3) == []
    (folder.path / "worker.log").write_text("\n".join(f"line {n}" for n in range(5000)) + "\n\n")
    assert folder.log_tail(2) == ["line 4998", "line 4999"]
