"""The server with the real worker: around a fake engine, and with the real one."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess, furnish_home


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    home = furnish_home(tmp_path / "home")
    with ServerProcess(home, HORIZON_WORKER_MODULE="tests.support.fake_worker", HORIZON_FAKE_STEP_S="0.05") as process:
        yield process


def steps_of(server: ServerProcess, run_id: str) -> list[int]:
    return [event["step"] for event in server.all_events(run_id) if event["type"] == "metrics"]


def test_server_killed_during_a_run_finds_it_again_with_every_step_once(server: ServerProcess) -> None:
    run_id = server.submit(steps=120)
    server.wait_step(run_id, 4)
    server.end(signal.SIGKILL)
    server.start()
    run = server.wait_state(run_id, "finished", deadline_s=40)
    assert steps_of(server, run_id) == list(range(1, 121))
    assert run["outcome"]["optimizer_steps"] == 120 and run["checkpoints"]


def test_run_stopped_over_the_wire_saves_a_model(server: ServerProcess) -> None:
    run_id = server.submit(steps=5000)
    server.wait_step(run_id, 3)
    server.post(f"/runs/{run_id}/stop")
    run = server.wait_state(run_id, "stopped")
    (checkpoint,) = run["checkpoints"]
    assert checkpoint["step"] == run["step"]
    assert (server.home / "runs" / run_id / checkpoint["path"] / "model.safetensors").is_file()


@pytest.mark.slow
def test_real_engine_trains_through_a_server_kill(tmp_path: Path) -> None:
    from tests.support.small_model import write_rhyme, write_small_model

    home = tmp_path / "home"
    write_small_model(home / "models" / "small")
    (home / "data").mkdir()
    write_rhyme(home / "data" / "rhyme.txt")
    spec = {
        "model": {"path": "models/small", "init": "random"},
        "data": {"path": "data/rhyme.txt", "sequence_length": 64},
        "training": {"optimizer_steps": 25, "learning_rate": 3e-3, "warmup_steps": 2},
        "offload": {"device": "cpu", "param_block_size": "64KiB", "max_gpu_blocks": 6},
    }
    with ServerProcess(home, HORIZON_WORKER_MODULE="horizon_app.worker", OMP_NUM_THREADS="1") as server:
        run_id = server.post("/runs", {"spec": spec})["id"]
        server.wait_step(run_id, 2, deadline_s=90)
        server.end(signal.SIGKILL)
        server.start()
        run = server.wait_state(run_id, "finished", deadline_s=120)
        assert steps_of(server, run_id) == list(range(1, 26))
        losses = server.get(f"/runs/{run_id}/metrics", keys="train/loss")["series"]["train/loss"]["y"]
        assert losses[-1] < losses[0] - 1.0
        assert server.get(f"/runs/{run_id}/residency")["frame"]
        assert run["plan"] and run["checkpoints"][-1]["step"] == 25
