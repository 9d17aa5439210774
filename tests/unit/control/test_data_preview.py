"""The look at data in a process of its own: what comes of one that fails, and of what it finds."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.control.data_preview import data_problems, preview_for_client
from horizon_app.control.errors import DataRefused, PreviewFailed
from horizon_app.settings import AppSettings

ROW = '{"text": "a"}\n'


def settings(home: Path) -> AppSettings:
    (home / "data").mkdir(parents=True)
    return AppSettings(home=home)


def test_look_of_a_client_is_confined_to_the_home_folder(tmp_path: Path) -> None:
    home = settings(tmp_path / "home")
    (tmp_path / "secret.txt").write_text("CANARY")
    (tmp_path / "home" / "data" / "link.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(DataRefused, match="leads out of the folder") as caught:
        preview_for_client(home, {"path": "data"}, None, most_samples=3)
    assert "CANARY" not in str(caught.value)


def test_problems_of_rows_become_problems_of_the_specs_field(tmp_path: Path) -> None:
    path = tmp_path / "-odd name.jsonl"
    path.write_text(ROW + '{"text": 3}\n')
    (problem,) = data_problems(DataSpec(path="x"), [path], tmp_path / "no model")[1:]
    assert (problem.field, problem.file, problem.line) == ("data.path", str(path), 2)


@pytest.mark.parametrize("failure", ["crash", "late"])
def test_look_that_fails_is_told_to_a_client_and_keeps_no_run_from_starting(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        if failure == "late":
            raise subprocess.TimeoutExpired(command, 1)
        return subprocess.CompletedProcess(command, -9, b"", b"Killed")

    home = settings(tmp_path / "home")
    (home.home / "data" / "a.jsonl").write_text(ROW)
    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(PreviewFailed, match="could not be looked at"):
        preview_for_client(home, {"path": "data/a.jsonl"}, None, most_samples=3)
    assert data_problems(DataSpec(path="x"), [home.home / "data" / "a.jsonl"], tmp_path) == []
