"""A pause changes no number: the real engine, in RAM and on disk, paused and continued; and the command line."""

import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from horizon_app.contracts.commands import Command, ContinueRun, PauseRun
from horizon_app.worker.boundary import StepBoundary
from tests.integration.test_disk_tier import PAGED, STEPS, losses, run
from tests.integration.test_worker_engine import order, trouble
from tests.support.commands import run_horizon, start_horizon, write_spec
from tests.support.faulty_disk import FaultyDisk
from tests.support.run_folders import read_journal, states, wait_until

IN_RAM: dict[str, Any] = {**PAGED, "offload": {**PAGED["offload"], "host_memory": "auto", "disk": "off"}}


def tell(run_dir: Path, command: Command) -> None:
    with (run_dir / "commands.jsonl").open("a") as file:
        file.write(command.model_dump_json() + "\n")


def go_on_when_paused(run_dir: Path) -> None:
    wait_until(lambda: states(run_dir)[-1:] == ["paused"], "it holds before the first step", 60)
    tell(run_dir, ContinueRun())
    wait_until(lambda: states(run_dir).count("paused") == 2, "it holds once more", 60)
    tell(run_dir, ContinueRun())


@pytest.mark.slow
@pytest.mark.parametrize("sections", [IN_RAM, PAGED], ids=["in RAM", "on disk"])
def test_run_that_was_paused_has_the_losses_and_weights_of_an_unbroken_one_to_the_last_bit(
    tmp_path: Path, sections: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken, paused = order(tmp_path / "unbroken", **sections), order(tmp_path / "paused", **sections)
    assert run(unbroken, FaultyDisk()) == 0, trouble(unbroken)
    after_step = StepBoundary.after_step

    def asked_after_step_2(boundary: StepBoundary, step: int) -> None:
        if step == 2:
            tell(paused, PauseRun(save=True))
            wait_until(lambda: boundary._p.wishes.pause.reason, "the command is read")
        after_step(boundary, step)

    tell(paused, PauseRun())
    monkeypatch.setattr(StepBoundary, "after_step", asked_after_step_2)
    helper = threading.Thread(target=go_on_when_paused, args=(paused,))
    helper.start()
    assert run(paused, FaultyDisk()) == 0, trouble(paused)
    helper.join()
    assert states(paused) == ["running", "paused", "running", "paused", "running", "finished"]
    assert losses(paused) == losses(unbroken) and len(losses(paused)) == STEPS
    ours, theirs = (load_file(d / "checkpoints" / str(STEPS) / "model.safetensors") for d in (paused, unbroken))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_run_in_the_foreground_is_paused_and_let_go_on_from_another_terminal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    spec = write_spec(tmp_path / "job", training={"optimizer_steps": 100_000})
    process = start_horizon("run", spec, home=home, step_s=0.02)
    wait_until(lambda: any(steps_in(home)), "a step")
    (run_dir,) = (home / "runs").iterdir()
    done = run_horizon("runs", "pause", run_dir.name, home=home)
    assert done.exit_code == 0 and "was asked to pause" in done.output, done.output
    wait_until(lambda: states(run_dir)[-1:] == ["paused"], "it holds")
    done = run_horizon("runs", "resume", run_dir.name, home=home)
    assert done.exit_code == 0 and "was told to go on" in done.output, done.output
    wait_until(lambda: states(run_dir)[-1:] == ["running"], "it goes on")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "paused by command line (after optimizer step" in errors and "`horizon runs resume`" in errors
    (steps,) = steps_in(home)
    assert steps == list(range(1, len(steps) + 1))


def steps_in(home: Path) -> list[list[int]]:
    folders = (home / "runs").glob("*")
    return [[event.step for event in read_journal(folder) if event.type == "metrics"] for folder in folders]
