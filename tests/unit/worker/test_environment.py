"""How a process that computes is set up."""

import os
import subprocess
import sys

import pytest

from horizon_app.worker.environment import ENVIRONMENT, lay_environment
from tests.support.commands import ROOT

IDLE_FOR_S = 0.5
COMPUTE_THEN_WAIT = f"""
import time
from horizon_app.worker.environment import prepare_process
prepare_process()
import torch
torch.set_num_threads(2)  # more than there are cores never spin for long
torch.ones(1_000_000).mul_(2.0)
begun = time.process_time()
time.sleep({IDLE_FOR_S})
print(time.process_time() - begun)
"""


def idle_seconds() -> float:
    """Processor time that a process's compute threads take while it waits after a product."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", COMPUTE_THEN_WAIT], capture_output=True, text=True, check=True, timeout=120,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return float(done.stdout)


def test_what_the_user_has_set_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"GOMP_SPINCOUNT": "7"})
    lay_environment()
    assert os.environ == {**ENVIRONMENT, "GOMP_SPINCOUNT": "7"}


def test_compute_threads_sleep_while_nothing_is_computed() -> None:
    assert idle_seconds() < IDLE_FOR_S / 5
