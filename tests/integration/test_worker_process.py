"""Whole worker processes, with the fake engine: signals, kills, orphans."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from horizon_app.contracts.events import MetricsRecorded
from tests.support.run_folders import make_run_folder, read_journal, states, wait_until

ROOT = Path(__file__).parents[2]


def start_worker(run_dir: Path, step_s: float = 0.01, output: int | None = None) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "HORIZON_FAKE_STEP_S": str(step_s)}
    command = [sys.executable, "-m", "tests.support.fake_worker", str(run_dir)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        start_new_session=True,
    )  # fmt: skip


def num_steps(run_dir: Path) -> int:
    return sum(isinstance(event, MetricsRecorded) for event in read_journal(run_dir))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_worker_on_a_signal_saves_and_ends_stopped(number: signal.Signals, tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 100_000})
    worker = start_worker(run_dir)
    wait_until(lambda: num_steps(run_dir) >= 3, "three steps")
    worker.send_signal(number)
    assert worker.wait(timeout=20) == 0
    assert states(run_dir) == ["running", "stopped"]
    exit_words = json.loads((run_dir / "exit.json").read_text())
    assert number.name in exit_words["reason"]
    assert (run_dir / "checkpoints" / str(num_steps(run_dir)) / "config.json").exists()


def test_worker_in_a_path_with_spaces_and_chinese_finishes(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "my runs 训练" / "run", training={"optimizer_steps": 3})
    assert start_worker(run_dir).wait(timeout=20) == 0
    assert states(run_dir) == ["running", "finished"]
    assert num_steps(run_dir) == 3


def test_worker_whose_output_pipe_nobody_reads_goes_on(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 5}, model="broken")
    worker = start_worker(run_dir, output=subprocess.PIPE)
    assert worker.wait(timeout=20) == 1
    out, err = worker.communicate()
    assert (out, err) == (b"", b"")
    assert (run_dir / "worker.log").exists()
    assert states(run_dir) == ["failed"]


def test_worker_killed_while_writing_leaves_a_journal_that_the_next_one_continues(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 300})
    worker = start_worker(run_dir, step_s=0.0)
    wait_until(lambda: num_steps(run_dir) >= 20, "twenty steps")
    worker.kill()
    worker.wait(timeout=20)
    journal = run_dir / "journal.jsonl"
    whole = journal.read_bytes()[: journal.read_bytes().rfind(b"\n") + 1]
    with journal.open("ab") as file:
        file.write(b'{"time":"2030-01-01T00:00:00Z","type":"metr')
    assert start_worker(run_dir, step_s=0.0).wait(timeout=20) == 0
    assert journal.read_bytes().startswith(whole)
    assert states(run_dir)[-1] == "finished"


def test_worker_whose_starter_is_killed_finishes_its_run(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 20})
    script = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'tests.support.fake_worker', sys.argv[1]], start_new_session=True)\n"
        "time.sleep(600)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", script, str(run_dir)], cwd=ROOT, env={**os.environ, "HORIZON_FAKE_STEP_S": "0.05"}
    )
    wait_until(lambda: num_steps(run_dir) >= 1, "the first step")
    starter.kill()
    starter.wait(timeout=20)
    wait_until(lambda: (run_dir / "exit.json").exists(), "the worker ends by itself")
    assert states(run_dir) == ["running", "finished"]
    assert num_steps(run_dir) == 20


def test_worker_while_running_names_itself_in_worker_json(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run", training={"optimizer_steps": 100_000})
    worker = start_worker(run_dir)
    try:
        wait_until(lambda: num_steps(run_dir) >= 1, "the first step")
        beat = json.loads((run_dir / "worker.json").read_text())
        assert beat["pid"] == worker.pid
        assert beat["start_time"] == pytest.approx(psutil.Process(worker.pid).create_time(), abs=2)
    finally:
        worker.terminate()
        worker.wait(timeout=20)


def test_worker_without_a_folder_says_how_it_is_called(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "horizon_app.worker", str(tmp_path / "missing")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert found.returncode == 2
    assert "RUN_DIR" in found.stderr
    assert not (tmp_path / "missing").exists()


def test_worker_on_a_signal_while_it_imports_torch_ends_stopped_without_waiting_for_it(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    begun = tmp_path / "begun"
    text = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(600)\n"
    (tmp_path / "torch" / "__init__.py").write_text(text)
    run_dir = make_run_folder(tmp_path / "run")
    worker = subprocess.Popen(
        [sys.executable, "-m", "horizon_app.worker", str(run_dir)], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}, start_new_session=True,
    )  # fmt: skip
    wait_until(begun.exists, "it imports torch", 60)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=20) == 0
    assert states(run_dir) == ["stopped"]
    reason = json.loads((run_dir / "exit.json").read_text())["reason"]
    assert reason.startswith("stopped by SIGTERM while reading the data (importing transformers.")
    assert reason.endswith("nothing saved")
