"""The worker around the real data and the real engine, on the CPU."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from horizon_app.contracts.events import CheckpointWritten, FactNoted, LogWritten, MetricsRecorded, RunOutcome
from horizon_app.contracts.residency import BlockLayout, decode_frame, frame_bytes
from horizon_app.worker.parts import real_builders
from horizon_app.worker.session import Session
from horizon_app.worker.stop_request import StopRequest
from tests.support.run_folders import make_run_folder, read_journal, states, wait_until
from tests.support.small_model import write_rhyme, write_small_model

ROOT = Path(__file__).parents[2]
SLOTS = 12


def order(folder: Path, **changes: Any) -> Path:
    """A run of a small model whose arena holds about a fifth of its blocks."""
    write_small_model(folder / "model")
    write_rhyme(folder / "corpus.txt")
    sections: dict[str, Any] = {
        "training": {"optimizer_steps": 30, "global_batch_size": 4, "learning_rate": 3e-3, "warmup_steps": 2},
        "offload": {"param_block_size": "16KiB", "max_gpu_blocks": SLOTS, "device": "cpu"},
        "precision": {"compute": "fp32"},
    } | changes
    run_dir = make_run_folder(folder / "runs" / "run", **sections)
    content = json.loads((run_dir / "run.json").read_text())
    content["spec"]["model"]["init"] = "random"
    content["spec"]["data"]["sequence_length"] = 64
    content |= {"model_dir": str(folder / "model"), "data_paths": [str(folder / "corpus.txt")]}
    (run_dir / "run.json").write_text(json.dumps(content))
    return run_dir


def start(run_dir: Path) -> "subprocess.Popen[bytes]":
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]
    # One thread: on a busy machine, products this small wait for their threads longer than they take.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "horizon_app.worker", str(run_dir)]
    return subprocess.Popen(command, cwd=run_dir, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)


def exit_code(worker: "subprocess.Popen[bytes]") -> int:
    """Wait for a worker's end; one that takes too long is killed."""
    try:
        return worker.wait(timeout=120)
    finally:
        worker.kill()
        worker.wait()


def trouble(run_dir: Path) -> str:
    lines = [event.message for event in read_journal(run_dir) if isinstance(event, LogWritten)]
    return "\n".join([*lines, (run_dir / "worker.log").read_text()])


def facts(run_dir: Path) -> dict[str, dict[str, Any]]:
    return {event.kind: event.data for event in read_journal(run_dir) if isinstance(event, FactNoted)}


def losses(run_dir: Path) -> list[float]:
    found = [event.values["train/loss"] for event in read_journal(run_dir) if isinstance(event, MetricsRecorded)]
    return [loss for loss in found if loss is not None]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that went to its end."""
    run_dir = order(tmp_path_factory.mktemp("trained"))
    assert exit_code(start(run_dir)) == 0, trouble(run_dir)
    return run_dir


@pytest.mark.slow
def test_worker_trains_a_model_larger_than_its_arena_and_saves_one_that_loads(trained: Path) -> None:
    run_dir = trained
    assert states(run_dir) == ["running", "finished"]
    found = losses(run_dir)
    assert len(found) == 30
    assert found[-1] < found[0] - 1.0
    outcome = RunOutcome.model_validate(facts(run_dir)["outcome"])
    assert 0 < outcome.peak.device_blocks <= SLOTS
    layout = BlockLayout.model_validate(facts(run_dir)["layout"])
    assert len(layout.blocks) > SLOTS
    model = AutoModelForCausalLM.from_pretrained(run_dir / "checkpoints" / "30")
    assert model.num_parameters() == layout.parameters
    assert AutoTokenizer.from_pretrained(run_dir / "checkpoints" / "30").decode([0]) != ""


@pytest.mark.slow
def test_worker_records_whole_residency_frames_of_its_layout(trained: Path) -> None:
    recording = (trained / "residency.bin").read_bytes()
    num_blocks = len(BlockLayout.model_validate(facts(trained)["layout"]).blocks)
    length = frame_bytes(num_blocks, 3)
    assert recording
    assert len(recording) % length == 0
    header, maps = decode_frame(recording[:length])
    assert header.num_blocks == num_blocks
    assert header.step >= 1
    assert len(maps) == 3


@pytest.mark.slow
def test_worker_stopped_by_a_command_saves_the_step_it_reached(tmp_path: Path) -> None:
    run_dir = order(tmp_path, training={"optimizer_steps": 100_000, "global_batch_size": 4})
    worker = start(run_dir)
    wait_until(lambda: len(losses(run_dir)) >= 3, "three steps", deadline_s=60)
    (run_dir / "commands.jsonl").write_text('{"type": "stop", "save": true}\n')
    assert exit_code(worker) == 0, trouble(run_dir)
    assert states(run_dir) == ["running", "stopped"]
    saved = [event.step for event in read_journal(run_dir) if isinstance(event, CheckpointWritten)]
    assert saved == [len(losses(run_dir))]
    assert (run_dir / "checkpoints" / str(saved[0]) / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"offload": {"param_block_size": "16KiB", "max_gpu_blocks": 1, "device": "cpu"}}, "max_gpu_blocks is 1"),
        ({"offload": {"param_block_size": "16KiB", "device": "cuda:7"}}, "cuda:7"),
        ({"offload": {"param_block_size": "16KiB", "device": "cpu", "host_memory": "64KiB"}}, "host"),
    ],
)
def test_session_with_an_engine_that_refuses_fails_with_its_sentence(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    run_dir = order(tmp_path, **change)
    assert Session(run_dir, real_builders(), StopRequest()).run() == 1
    assert states(run_dir) == ["failed"]
    assert words in facts(run_dir)["outcome"]["reason"]
    assert facts(run_dir)["outcome"]["reason"].startswith("building the engine: ")
    assert any("Traceback" in event.message for event in read_journal(run_dir) if isinstance(event, LogWritten))


@pytest.mark.slow
def test_session_with_data_that_holds_no_text_fails_with_the_field(tmp_path: Path) -> None:
    run_dir = order(tmp_path)
    (tmp_path / "corpus.txt").write_text("")
    assert Session(run_dir, real_builders(), StopRequest()).run() == 1
    assert states(run_dir) == ["failed"]
    assert facts(run_dir)["outcome"]["reason"].startswith("reading the data: data.path: ")


@pytest.mark.slow
def test_worker_whose_disk_fills_while_saving_pauses_and_keeps_nothing_half(tmp_path: Path) -> None:
    run_dir = order(tmp_path, training={"optimizer_steps": 4, "global_batch_size": 4}, checkpoint={"every": 2})
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
    ignore = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    enter = "from horizon_app.worker.__main__ import main, end_process; end_process(main(sys.argv[1:]))"
    command = [sys.executable, "-c", limit + ignore + enter, str(run_dir)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True) as worker:
        wait_until(lambda: "paused" in states(run_dir), "it finds no room", deadline_s=120)
        assert list((run_dir / "checkpoints").iterdir()) == []
        worker.terminate()  # and saving is tried once more, to no avail
        assert worker.wait(timeout=60) == 1
    assert states(run_dir) == ["running", "paused", "failed"]
    # That of step 2 is written beside step 3; where it fails only then, that of step 3 is what is tried again.
    assert re.match(r"writing the checkpoint of optimizer step [23]: ", facts(run_dir)["outcome"]["reason"])
    assert list((run_dir / "checkpoints").iterdir()) == []
