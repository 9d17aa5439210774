"""`horizon runs compare` and `horizon runs export` on a home folder without a server."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from horizon_app.cli.main import app
from tests.support.stores import add_measured_run, open_store

runner = CliRunner()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def runs(home: Path) -> list[str]:
    with open_store(home) as database:
        return [
            add_measured_run(
                database, {"train/loss": {1: 2.0, 2: loss}}, name=f"[b]{policy}", spec={"offload": {"policy": policy}}
            )
            for policy, loss in (("lru", 1.25), ("clock", 1.5))
        ]


def invoke(home: Path, *arguments: str | Path) -> Any:
    return runner.invoke(app, ["runs", *map(str, arguments), "--home", str(home)], env={"COLUMNS": "160"})


def test_compare_shows_differences_and_last_metrics(home: Path, runs: list[str]) -> None:
    done = invoke(home, "compare", *runs)
    assert done.exit_code == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["offload.policy", "lru", "clock"] in rows
    assert ["train/loss", "1.25", "1.5"] in rows
    assert "[b]lru" in done.stdout


def test_compare_as_json_prints_one_object(home: Path, runs: list[str]) -> None:
    body = json.loads(invoke(home, "compare", *runs, "--json", "--keys", "train/loss").stdout)
    assert body["series"]["train/loss"][runs[1]]["y"] == [2.0, 1.5]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["compare", "a"], 2, "2 to 20"),
        (["compare", "a", "b"], 1, "'a', 'b'"),
        (["compare", "a", "b", "--x", "y"], 2, "--x"),
    ],
)
def test_compare_that_makes_no_sense_says_what_and_exits(
    arguments: list[str], code: int, text: str, home: Path, runs: list[str]
) -> None:
    done = invoke(home, *arguments)
    assert (done.exit_code, text in done.stderr) == (code, True), done.stderr


def test_compare_with_an_output_writes_a_report(home: Path, runs: list[str], tmp_path: Path) -> None:
    target = tmp_path / "both.html"
    done = invoke(home, "compare", *runs, "--output", target)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert invoke(home, "compare", *runs, "--output", tmp_path / "x", "--json").exit_code == 2


def test_export_as_json_goes_to_standard_output_and_nothing_else_does(home: Path, runs: list[str]) -> None:
    done = invoke(home, "export", runs[0], "--format", "json")
    assert json.loads(done.stdout)["metrics"]["train/loss"] == {"x": [1, 2], "y": [2.0, 1.25]}


def test_export_to_a_file_writes_it_and_leaves_one_that_is_there(home: Path, runs: list[str], tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    assert invoke(home, "export", runs[0], "--format", "csv", "--output", target).exit_code == 0
    assert target.read_bytes() == b"step,train/loss\r\n1,2.0\r\n2,1.25\r\n"
    again = invoke(home, "export", runs[1], "--format", "csv", "--output", target)
    assert (again.exit_code, "there already" in again.stderr) == (1, True)
    assert b"1.25" in target.read_bytes()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "--format"),
        (["--format", "gguf"], "a model with --model DIR"),
        (["--format", "json", "--dtype", "bf16"], "--dtype: not for a history"),
        (["--format", "json", "--json"], "--format json"),
        (["--model", "m", "--output", "f"], "--output: not for a model"),
        (["--model", "m", "--format", "csv"], "--format"),
    ],
)
def test_export_that_mixes_model_and_history_is_refused(
    options: list[str], text: str, home: Path, runs: list[str]
) -> None:
    done = invoke(home, "export", runs[0], *options)
    assert (done.exit_code, text in done.stderr) == (2, True), done.stderr


def test_export_of_an_unknown_run_leaves_no_file(home: Path, runs: list[str], tmp_path: Path) -> None:
    done = invoke(home, "export", "nobody", "--format", "json", "--output", tmp_path / "out.json")
    assert (done.exit_code, "no run 'nobody'" in done.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []
