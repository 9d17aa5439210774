import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from horizon_app import __version__
from horizon_app.cli.main import app

ROOT = Path(__file__).parents[3]
runner = CliRunner()

SURFACE = {
    "": ["--version", "--install-completion", "--show-completion"],
    "serve": ["--host", "--port", "--home", "--open/--no-open", "--example/--no-example"],
    "doctor": ["run_id", "--apply", "--start", "--json", "--home"],
    "run": ["spec", "--set", "--json", "--resume", "--home"],
    "chat": [
        "run_id", "--checkpoint", "--message/-m", "--system", "--max-new-tokens", "--temperature", "--top-p", "--top-k",
        "--seed", "--json", "--home",
    ],
    "runs list": [
        "--state", "--tag", "--q", "--archived", "--all", "--sort", "--limit", "--cursor", "--json", "--home",
    ],
    "runs watch": ["run_id", "--after", "--json", "--home"],
    "runs show": ["run_id", "--json", "--home"],
    "runs stop": ["run_id", "--save/--no-save", "--json", "--home"],
    "runs delete": ["run_id", "--yes/-y", "--pinned", "--json", "--home"],
    "runs export": [
        "run_id", "--format", "--output/-o", "--model", "--dtype", "--checkpoint", "--shard-size", "--json", "--home",
    ],
    "runs pause": ["run_id", "--save/--no-save", "--json", "--home"],
    "runs set": ["run_id", "changes", "--undo", "--if-version", "--wait", "--json", "--home"],
    "runs compare": ["run_ids", "--keys", "--max-points", "--x", "--output/-o", "--json", "--home"],
    "runs resume": ["run_id", "--set", "--json", "--home"],
    "runs queue": ["--json", "--home"],
    "runs start": ["run_id", "--json", "--home"],
    "runs hold": ["run_id", "--json", "--home"],
    "runs move": ["run_id", "--position", "--before", "--last", "--json", "--home"],
    "runs clone": ["run_id", "--set", "--name", "--start/--no-start", "--json", "--home"],
    "runs archive": ["run_id", "--json", "--home"],
    "runs unarchive": ["run_id", "--json", "--home"],
    "runs checkpoint": ["run_id", "--json", "--home"],
    "runs checkpoints": ["run_id", "--json", "--home"],
    "runs pin": ["run_id", "step", "--off", "--json", "--home"],
    "db backup": ["file", "--force", "--json", "--home"],
    "db check": ["--json", "--home"],
    "token new": ["--json", "--home"],
    "token remove": ["--json", "--home"],
}  # fmt: skip
"""Every verb with its arguments and options: scripts rely on these. Add freely, take away never."""

OTHERS = {"example", "model", "data"}
"""Verbs whose surface is frozen beside the tests of their own modules."""


def surface(command: Any, verb: str = "", others: frozenset[str] = frozenset(OTHERS)) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    options = ["/".join([*option.opts, *option.secondary_opts]) for option in command.params]
    if options or not hasattr(command, "commands"):
        found[verb] = options
    for name, below in getattr(command, "commands", {}).items():
        if verb or name not in others:
            found |= surface(below, f"{verb} {name}".strip(), others)
    return found


def test_command_line_has_exactly_the_frozen_verbs_and_options() -> None:
    assert surface(get_command(app)) == SURFACE


def test_version_option_prints_the_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"horizon {__version__}\n")


def test_command_without_a_verb_shows_help() -> None:
    result = runner.invoke(app, [])
    assert "serve" in result.output
    assert "runs" in result.output


@pytest.mark.parametrize("arguments", [[], ["spec.yaml", "--resume", "20260131-120000-abcdef"]])
def test_run_wants_a_spec_or_a_run_to_go_on_with(arguments: list[str]) -> None:
    result = runner.invoke(app, ["run", *arguments])
    assert result.exit_code == 2
    assert "horizon run SPEC, or horizon run --resume RUN_ID" in result.stderr


def test_run_with_resume_of_a_run_that_is_not_there_says_so(tmp_path: Path) -> None:
    result = runner.invoke(app, ["run", "--resume", "20260131-120000-abcdef", "--home", str(tmp_path)])
    assert result.exit_code == 1
    assert "there is no run '20260131-120000-abcdef'" in result.stderr


def test_runs_list_with_an_unknown_state_names_the_states(tmp_path: Path) -> None:
    result = runner.invoke(app, ["runs", "list", "--state", "done", "--home", str(tmp_path)])
    assert result.exit_code == 2
    assert "finished" in result.stderr


def test_settings_from_a_bad_environment_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORIZON_PORT", "many")
    result = runner.invoke(app, ["runs", "list"])
    assert result.exit_code == 2
    assert "HORIZON_PORT" in result.stderr


def test_module_without_arguments_imports_nothing_heavy() -> None:
    script = (
        "import sys, horizon_app.cli.main\n"
        "heavy = {'torch', 'transformers', 'numpy', 'sqlalchemy', 'fastapi', 'pydantic', 'httpx', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_module_help_takes_less_than_half_a_second_of_the_processor() -> None:
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "horizon_app", "--help"], cwd=ROOT, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # The best of three, in processor time: other work on the machine is not what is measured.
    assert min(seconds() for _ in range(3)) < 0.5


def every_verb() -> dict[str, list[str]]:
    return surface(get_command(app), others=frozenset())


NEEDED = {
    "runs pin": ["1"],
    "runs set": ["prefetch_window=3"],
    "runs move": ["--last"],
    "runs export": ["--model", "x"],
}
"""What a verb has to be told beside the run."""


def verbs_of_a_run() -> list[str]:
    return [verb for verb, options in surface(get_command(app)).items() if options[:1] == ["run_id"]]


def test_every_verb_prints_json_but_the_server() -> None:
    without = {verb for verb, options in every_verb().items() if "--json" not in options}
    assert without == {"", "serve"}  # "" is `horizon` alone


@pytest.mark.parametrize("verb", verbs_of_a_run())
def test_verb_of_a_run_that_is_not_there_says_so_on_standard_error_alone(verb: str, tmp_path: Path) -> None:
    arguments = [*verb.split(), "20260131-120000-abcdef", *NEEDED.get(verb, []), "--json", "--home", str(tmp_path)]
    result = runner.invoke(app, arguments, input="")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "horizon: there is no run '20260131-120000-abcdef'\n"


def test_output_that_nobody_reads_ends_the_command_quietly(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "horizon_app", "runs", "list", "--home", str(tmp_path)]
    with os.fdopen(writer, "wb") as output:
        done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_can_not_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "horizon_app", "runs", "list", "--json", "--home", str(tmp_path)]
    with Path("/dev/full").open("wb") as output:
        done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "horizon: standard output can't be written: No space left on device\n"


def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    def coloured(**environment: str) -> bool:
        command = [sys.executable, "-m", "horizon_app", "runs", "--help"]
        wishes = {"FORCE_COLOR": "1", "TERM": "xterm-256color", **environment}
        kept = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        done = subprocess.run(command, cwd=ROOT, env={**kept, **wishes}, capture_output=True, text=True, check=True)
        return "\x1b[3" in done.stdout or "\x1b[1;3" in done.stdout

    assert coloured()
    assert not coloured(NO_COLOR="1")
