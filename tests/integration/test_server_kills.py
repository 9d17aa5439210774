"""Servers and workers that are killed at any moment, with clients watching, lose nothing."""

from pathlib import Path

import pytest

from tests.support.server_kills import survive


@pytest.mark.slow
@pytest.mark.timeout(400)  # a dozen processes are started one after the other: minutes on a machine that is busy
def test_runs_survive_kills_of_server_and_workers_with_every_step_and_frame_once(tmp_path: Path) -> None:
    """`python -m tests.bench chaos` does the same a hundred times."""
    found = survive(tmp_path, kills=6, seed=3)
    assert found.server_kills and found.worker_kills
    assert found.resumed >= found.worker_kills and found.reconnections >= 2
