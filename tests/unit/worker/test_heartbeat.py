import json
import logging
import os
import shutil
from pathlib import Path

import psutil
import pytest

from horizon_app.worker.heartbeat import Heartbeat
from tests.support.run_folders import wait_until


def beat_of(run_dir: Path) -> dict[str, float]:
    return json.loads((run_dir / "worker.json").read_text())


def test_heartbeat_start_names_this_process_at_once(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path, interval_s=60.0)
    heartbeat.start()
    heartbeat.close()
    assert beat_of(tmp_path)["pid"] == os.getpid()
    assert beat_of(tmp_path)["start_time"] == pytest.approx(psutil.Process().create_time(), abs=2)


def test_heartbeat_goes_on_until_closed(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path, interval_s=0.01)
    heartbeat.start()
    first = beat_of(tmp_path)["heartbeat"]
    wait_until(lambda: beat_of(tmp_path)["heartbeat"] > first, "another beat")
    heartbeat.close()
    assert not heartbeat._thread.is_alive()
    assert [path.name for path in tmp_path.iterdir()] == ["worker.json"]


def test_heartbeat_of_a_deleted_folder_says_so_and_does_not_bring_it_back(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    heartbeat = Heartbeat(run_dir, interval_s=0.01)
    heartbeat.start()
    shutil.rmtree(run_dir, ignore_errors=True)
    shutil.rmtree(run_dir, ignore_errors=True)
    wait_until(lambda: heartbeat.unwanted, "the missing folder is noticed")
    heartbeat.close()
    assert not run_dir.exists()


def test_heartbeat_of_a_renamed_folder_does_not_write_into_the_one_that_took_its_name(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    heartbeat = Heartbeat(run_dir, interval_s=0.01)
    heartbeat.start()
    run_dir.rename(tmp_path / "elsewhere")
    run_dir.mkdir()
    wait_until(lambda: heartbeat.unwanted, "the other folder is noticed")
    heartbeat.close()
    assert "deleted or renamed" in heartbeat.unwanted
    assert beat_of(tmp_path / "elsewhere")["pid"] == os.getpid()


def test_heartbeat_of_a_run_that_another_worker_took_over_stops_and_leaves_that_ones_name(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path, interval_s=0.01)
    heartbeat._beat()
    (tmp_path / "worker.json").write_text(json.dumps({"pid": 1, "start_time": 0.0}))
    heartbeat._thread.start()
    wait_until(lambda: heartbeat.unwanted, "the other worker is noticed")
    heartbeat.close()
    assert heartbeat.unwanted == "the worker process 1 has taken the run over"
    assert beat_of(tmp_path) == {"pid": 1, "start_time": 0.0}


def test_heartbeat_says_how_much_memory_was_held_at_most(tmp_path: Path) -> None:
    Heartbeat(tmp_path)._beat()
    assert beat_of(tmp_path)["peak_bytes"] >= psutil.Process().memory_info().rss // 2


def test_heartbeat_on_a_full_disk_warns_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heartbeat = Heartbeat(tmp_path, interval_s=60.0)

    def full(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("horizon_app.worker.heartbeat.replace_file", full)
    with caplog.at_level(logging.WARNING):
        heartbeat._beat()
        heartbeat._beat()
    assert caplog.text.count("No space left") == 1
    assert not heartbeat.unwanted
