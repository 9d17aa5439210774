"""Which checkpoint is meant: the newest whole one, never one that is listed as broken."""

from pathlib import Path

import pytest

from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import Checkpoint, RunDetail
from horizon_app.control.errors import NothingRecorded
from horizon_app.control.run_models import saved_model

RUN_ID = "20260101-000000-abcdef"


def run_with(runs_dir: Path, *checkpoints: Checkpoint) -> RunDetail:
    for checkpoint in checkpoints:
        folder = runs_dir / RUN_ID / checkpoint.path
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    return RunDetail.model_construct(
        id=RUN_ID, state=RunState.INTERRUPTED, step=9, spec={"data": {}}, checkpoints=list(checkpoints)
    )


def checkpoint(step: int, broken: str = "") -> Checkpoint:
    return Checkpoint(step=step, path=f"checkpoints/{step}", bytes=1, broken=broken)


def test_saved_model_newest_is_broken_takes_the_newest_whole_one(tmp_path: Path) -> None:
    run = run_with(tmp_path, checkpoint(2), checkpoint(4), checkpoint(6, broken="its manifest is missing"))
    assert saved_model(run, tmp_path, None).step == 4


def test_saved_model_broken_one_is_named_says_why_and_which_there_are(tmp_path: Path) -> None:
    run = run_with(tmp_path, checkpoint(4), checkpoint(6, broken="its manifest is missing"))
    with pytest.raises(NothingRecorded, match=r"step 6 that can be used: its manifest is missing; there are: 4$"):
        saved_model(run, tmp_path, 6)


def test_saved_model_none_is_whole_says_why(tmp_path: Path) -> None:
    run = run_with(tmp_path, checkpoint(6, broken="its manifest is missing"))
    with pytest.raises(NothingRecorded, match=r"interrupted at step 9; that of step 6 can't be used: its manifest"):
        saved_model(run, tmp_path, None)


def test_saved_model_nothing_saved_says_so(tmp_path: Path) -> None:
    with pytest.raises(NothingRecorded, match=r"no whole checkpoint: it is interrupted at step 9$"):
        saved_model(run_with(tmp_path), tmp_path, None)
