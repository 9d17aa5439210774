"""A worker that is killed at any instant leaves a run that goes on as if nothing had been."""

from pathlib import Path

import pytest

from tests.support.kills import kill_at_random


@pytest.mark.slow
def test_worker_killed_at_random_instants_ends_with_the_losses_of_an_unbroken_run(tmp_path: Path) -> None:
    """`python -m tests.bench kills` does the same fifty times."""
    found = kill_at_random(tmp_path, kills=4, seed=5)
    assert found.kills == 4
    assert any(step > 0 for step in found.resumed_at), "no kill came behind a checkpoint: it tells nothing"
