"""Loading takes hardly more than the loaded model: nothing is held twice, and no file stays mapped."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.load_memory import allowed_bytes, write_random_llama


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak on Linux only")
def test_loading_takes_hardly_more_than_the_loaded_model(tmp_path: Path) -> None:
    """600 MB: were the file held beside it, or the model twice, it would not pass."""
    stored = write_random_llama(tmp_path, width=1024, layers=8, rows=16_000, dtype="float32")
    command = [sys.executable, "-m", "tests.support.load_memory", str(tmp_path), "fp32"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["loaded_bytes"] == pytest.approx(stored, rel=0.01)
    assert allowed_bytes(said["loaded_bytes"]) < 1.6 * said["loaded_bytes"], "the allowance would hide a second copy"
    assert said["grown_bytes"] <= allowed_bytes(said["loaded_bytes"])
