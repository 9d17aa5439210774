"""A model whose state exceeds the host tier trains within the memory that the plan says, with the same losses."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig

STEPS = 3
HOST_BYTES = 150_000_000
ALLOWANCE = 1.1


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """31 million parameters: 565 MB of weights, masters, moments and gradients."""
    folder = tmp_path_factory.mktemp("model")
    LlamaConfig(
        hidden_size=768, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8,
        vocab_size=2000, max_position_embeddings=64, tie_word_embeddings=False,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def trained(model: Path, disk_dir: Path, *, host: int, limit: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.integration.bounded_loop", *map(str, (model, disk_dir, host, STEPS, limit))]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def said(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts anonymous memory on Linux only")
def test_engine_state_beyond_host_memory_trains_under_the_plan_plus_a_tenth(model: Path, tmp_path: Path) -> None:
    without_disk = said(trained(model, tmp_path, host=0))
    assert without_disk["plan"]["disk_bytes"] == 0
    plan = said(trained(model, tmp_path, host=HOST_BYTES))["plan"]
    assert plan["host_bytes"] <= HOST_BYTES < without_disk["plan"]["host_bytes"] / 3
    assert {"weight", "master", "exp_avg", "exp_avg_sq"} <= set(plan["planes_on_disk"])
    limit = int(plan["process_bytes"] * ALLOWANCE)
    limited = said(trained(model, tmp_path, host=HOST_BYTES, limit=limit))
    assert limited["losses"] == without_disk["losses"]
    assert list(tmp_path.iterdir()) == [], "nothing is left in the disk tier's folder"
    refused = trained(model, tmp_path, host=0, limit=limit)
    assert refused.returncode != 0, "the limit bites: without the disk tier the same run does not fit"
