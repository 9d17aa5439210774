"""Numbers that go wrong, through the real command line: float16 that overflows for ever, and one NaN in the weights."""

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from horizon_app.contracts.checkpoints import find_checkpoints
from horizon_app.contracts.events import Event, FactNoted, MetricsRecorded
from horizon_app.engine.model.finite_scan import scan_tensor
from tests.support.run_folders import read_journal

pytestmark = pytest.mark.slow

INPUTS = Path(__file__).parent / "inputs"
OVERFLOW = INPUTS / "C06"
NAN_ROW = INPUTS / "C08"
MOST_SKIPS = 20
EMBEDDING, NAN_TOKEN, WIDTH = "model.embed_tokens.weight", 126, 32
SEED_WITH_ROW_4_AT_STEP_4 = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run that `horizon run --json` has carried out."""

    exit_code: int
    outcome: dict[str, Any]
    folder: Path

    @property
    def events(self) -> list[Event]:
        """Its journal."""
        return read_journal(self.folder)

    @property
    def metrics(self) -> list[MetricsRecorded]:
        """The numbers of each optimizer step."""
        return [event for event in self.events if isinstance(event, MetricsRecorded)]

    @property
    def checkpoints(self) -> list[str]:
        """The steps of those that are left."""
        folder = self.folder / "checkpoints"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def run_spec(folder: Path, *, model: Path, data: Path, **sections: Any) -> Run:
    """Write a spec and run it in a process of its own, with a real worker, on the CPU."""
    spec: dict[str, Any] = {
        "model": {"path": str(model)},
        "data": {"path": str(data), "sequence_length": 64, **sections.pop("data_options", {})},
        "offload": {"device": "cpu", "param_block_size": "16KiB", "max_gpu_blocks": 8},
        **sections,
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    done = subprocess.run(
        [sys.executable, "-m", "horizon_app", "run", str(path), "--json"],
        capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert done.stdout, done.stderr
    outcome = json.loads(done.stdout)
    runs = Path(os.environ["HORIZON_HOME"]) / "runs"
    return Run(exit_code=done.returncode, outcome=outcome, folder=runs / outcome["id"])


@pytest.fixture
def overflow_rows(tmp_path: Path) -> Path:
    """The rows of C06 as conversations."""
    rows = [json.loads(line) for line in (OVERFLOW / "train.jsonl").read_text().splitlines()]
    chats = [
        [{"role": "user", "content": row["instruction"]}, {"role": "assistant", "content": row["output"]}]
        for row in rows
    ]
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    return path


def overflow_run(tmp_path: Path, rows: Path, compute: str, steps: int) -> Run:
    return run_spec(
        tmp_path, model=OVERFLOW / "overflow", data=rows, precision={"compute": compute},
        training={"optimizer_steps": steps, "global_batch_size": 4},
    )  # fmt: skip


def test_float16_that_overflows_for_ever_ends_the_run_with_advice(tmp_path: Path, overflow_rows: Path) -> None:
    run = overflow_run(tmp_path, overflow_rows, "fp16", steps=200)
    assert (run.exit_code, run.outcome["state"]) == (1, "failed")
    assert "float16" in run.outcome["reason"]
    assert "precision.compute to bf16 or fp32" in run.outcome["reason"]
    skips = [event.data for event in run.events if isinstance(event, FactNoted) and event.kind == "skipped"]
    assert len(skips) <= MOST_SKIPS
    assert all(skip["step"] == 1 and skip["loss_scale"] > 0 for skip in skips)
    assert run.outcome["optimizer_steps"] == 0
    assert run.metrics == []
    assert run.checkpoints == []


def test_model_that_float16_can_not_hold_trains_in_float32(tmp_path: Path, overflow_rows: Path) -> None:
    run = overflow_run(tmp_path, overflow_rows, "fp32", steps=3)
    assert (run.exit_code, run.outcome["state"], run.outcome["optimizer_steps"]) == (0, "finished", 3)
    losses = [event.values["train/loss"] for event in run.metrics]
    assert len(losses) == 3
    assert all(loss is not None and math.isfinite(loss) for loss in losses)


def nan_run(tmp_path: Path, rows: str, compute: str) -> Run:
    """One row a step, in an order that takes the file's fourth row at step 4; saved every two steps, two are kept."""
    return run_spec(
        tmp_path, model=NAN_ROW / "nan-row", data=NAN_ROW / rows, precision={"compute": compute},
        data_options={"packing": False, "seed": SEED_WITH_ROW_4_AT_STEP_4},
        training={"optimizer_steps": 6, "global_batch_size": 1}, checkpoint={"every": 2, "keep": 2},
    )  # fmt: skip


def assert_nan_only_in_its_row(model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    found = [bad for name, tensor in tensors.items() if (bad := scan_tensor(name, tensor))]
    assert [(bad.name, bad.count, bad.first_index) for bad in found] == [(EMBEDDING, WIDTH, (NAN_TOKEN, 0))]


def test_sample_that_meets_a_nan_is_named_and_spoils_nothing(tmp_path: Path) -> None:
    run = nan_run(tmp_path, "row_4_hits_nan.jsonl", "fp32")
    assert (run.exit_code, run.outcome["state"], run.outcome["optimizer_steps"]) == (1, "failed", 3)
    assert "optimizer step 4" in run.outcome["reason"]
    assert "row_4_hits_nan.jsonl line 4" in run.outcome["reason"]
    assert run.checkpoints == ["2"]
    assert_nan_only_in_its_row(run.folder / "checkpoints" / "2")
    (checkpoint,) = find_checkpoints(run.folder)
    assert checkpoint.manifest is not None and checkpoint.manifest.nonfinite == {EMBEDDING: WIDTH}
    assert all(not event.nonfinite for event in run.metrics)


@pytest.mark.parametrize("compute", ["fp32", "fp16"])
def test_nan_that_no_sample_meets_stays_where_it_is(compute: str, tmp_path: Path) -> None:
    run = nan_run(tmp_path, "never_hits_nan.jsonl", compute)
    assert (run.exit_code, run.outcome["state"], run.outcome["optimizer_steps"]) == (0, "finished", 6)
    assert run.checkpoints == ["4", "6"]
    for step in run.checkpoints:
        assert_nan_only_in_its_row(run.folder / "checkpoints" / step)
    assert all(not event.nonfinite for event in run.metrics)


def test_inspection_finds_the_nan_before_any_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "horizon_app", "model", "inspect", str(NAN_ROW / "nan-row"), "--json"],
        capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (bad,) = json.loads(done.stdout)["nonfinite"]
    assert (bad["name"], bad["count"], bad["first_index"]) == (EMBEDDING, WIDTH, [NAN_TOKEN, 0])
