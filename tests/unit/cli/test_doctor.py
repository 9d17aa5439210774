"""`horizon doctor`: exit codes and the one JSON object."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from horizon_app.cli.main import app
from horizon_app.contracts.checks import MachineReport
from horizon_app.control.doctor import storage

runner = CliRunner()


@pytest.fixture(autouse=True)
def small_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_PROBE_BYTES", 8 << 20)


def test_doctor_as_json_prints_one_object(tmp_path: Path) -> None:
    done = runner.invoke(app, ["doctor", "--json", "--home", str(tmp_path)])
    report = MachineReport.model_validate(json.loads(done.stdout))
    assert done.exit_code == (1 if report.verdict == "problem" else 0)
    assert report.home == str(tmp_path)


def test_doctor_with_a_problem_exits_1_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "horizon.db").write_text("not a database" * 100)
    done = runner.invoke(app, ["doctor", "--home", str(tmp_path)], env={"COLUMNS": "200"})
    assert done.exit_code == 1
    assert "file is not a database" in done.stdout
    assert "go back to a backup" in done.stdout
