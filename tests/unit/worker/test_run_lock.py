"""One worker a folder."""

import os
from pathlib import Path

import pytest

from horizon_app.worker.run_lock import RunTaken, take_run


def test_run_that_another_worker_has_is_refused_until_that_one_is_gone(tmp_path: Path) -> None:
    first = take_run(tmp_path)
    with pytest.raises(RunTaken, match="another worker has the run"):
        take_run(tmp_path, patience_s=0.0)
    os.close(first)  # what the end of its process does
    os.close(take_run(tmp_path, patience_s=0.0))
