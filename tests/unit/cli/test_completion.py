"""What a shell completes, asked as bash does."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from horizon_app.cli.main import app
from horizon_app.contracts.events import COMMAND_LINE
from horizon_app.control.workstation import Workstation
from horizon_app.settings import AppSettings
from tests.support.server import furnish_home, scripted_spec


def completed(words: str, **environment: str) -> list[str]:
    """What is offered behind `words`, whose last one is incomplete."""
    asked = {"_HORIZON_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    result = CliRunner().invoke(app, [], prog_name="horizon", env={**asked, **environment})
    assert result.stderr == ""
    return result.stdout.split()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two runs that wait."""
    folder = furnish_home(tmp_path_factory.mktemp("completion") / "home")
    with Workstation(AppSettings(home=folder, check_data=False)) as station:
        for _ in range(2):
            station.submit(scripted_spec(), start=False, who=COMMAND_LINE)
    return folder


@pytest.mark.parametrize(
    "verb", ["runs show", "runs watch", "runs stop", "run --resume", "chat", "runs move x --before"]
)
def test_run_is_completed_from_the_history(verb: str, home: Path) -> None:
    listed = json.loads(CliRunner().invoke(app, ["runs", "list", "--json", "--home", str(home)]).stdout)
    ids = [run["id"] for run in listed["runs"]]
    assert completed(f"horizon {verb} ", HORIZON_HOME=str(home)) == ids
    assert completed(f"horizon {verb} {ids[0][:20]}", HORIZON_HOME=str(home)) == [ids[0]]
    assert completed(f"horizon {verb} 1999", HORIZON_HOME=str(home)) == []


def test_run_is_completed_from_the_home_that_is_named(home: Path, tmp_path: Path) -> None:
    assert len(completed(f"horizon runs show --home {home} ", HORIZON_HOME=str(tmp_path))) == 2


@pytest.mark.parametrize("broken", ["missing", "not a folder", "not a database", "bad setting"])
def test_run_of_a_home_that_is_of_no_use_is_completed_by_nothing(broken: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = {"HORIZON_HOME": str(home)}
    if broken == "not a folder":
        home.write_text("")
    elif broken == "not a database":
        home.mkdir()
        (home / "horizon.db").write_text("something else entirely")
    elif broken == "bad setting":
        environment["HORIZON_PORT"] = "many"
    before = sorted(tmp_path.rglob("*"))
    assert completed("horizon runs show ", **environment) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_states_knobs_and_keys_of_the_spec_are_completed() -> None:
    assert completed("horizon runs list --state st") == ["starting", "stopping", "stopped"]
    assert completed("horizon runs set x pre") == ["prefetch_window="]
    assert completed("horizon run spec.yaml --set training.sch") == ["training.schedule="]
    assert "offload.policy=clock_pro" in completed("horizon runs resume x --set offload.policy=")
    assert completed("horizon runs clone x --set compression.gradients=") == ["compression.gradients=none"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_a_shell_is_shown(shell: str) -> None:
    result = CliRunner().invoke(app, [], prog_name="horizon", env={"_HORIZON_COMPLETE": f"source_{shell}"})
    assert result.exit_code == 0 and "_HORIZON_COMPLETE" in result.stdout
