from pathlib import Path

import pytest

from horizon_app.contracts.commands import Command, StopRun
from horizon_app.worker.channel import CommandChannel
from tests.support.run_folders import wait_until


def test_command_written_before_the_start_is_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "commands.jsonl"
    path.write_text(StopRun(save=False).model_dump_json() + "\n")
    seen: list[Command] = []
    channel = CommandChannel(path, seen.append)
    channel.start()
    wait_until(lambda: seen, "the command arrives")
    channel.close()
    assert seen == [StopRun(save=False)]


def test_command_without_its_line_end_waits_for_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "commands.jsonl"
    seen: list[Command] = []
    channel = CommandChannel(path, seen.append)
    path.write_text('{"type": "st')
    channel.read_new()
    assert seen == []
    with path.open("a") as file:
        file.write('op"}\n')
    channel.read_new()
    channel.read_new()
    assert seen == [StopRun()]


def test_command_that_is_not_understood_is_ignored_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "commands.jsonl"
    path.write_text('{"type": "dance"}\n{"type": "stop"}\n')
    seen: list[Command] = []
    CommandChannel(path, seen.append).read_new()
    assert seen == [StopRun()]
    assert "dance" in caplog.text


def test_channel_without_a_file_waits_for_one(tmp_path: Path) -> None:
    seen: list[Command] = []
    channel = CommandChannel(tmp_path / "commands.jsonl", seen.append, poll_s=0.01)
    channel.start()
    (tmp_path / "commands.jsonl").write_text('{"type": "stop"}\n')
    wait_until(lambda: seen, "the command arrives")
    channel.close()
