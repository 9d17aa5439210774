"""`horizon run SPEC`: one run in the foreground, recorded in the same history as all others."""

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from horizon_app.cli.refusals import ASKED_WRONGLY, FAILED, INTERRUPTED, exit_codes, say, say_problems
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from horizon_app.cli.spec_file import SpecSource
    from horizon_app.contracts.problems import SpecRefused
    from horizon_app.contracts.run_view import RunDetail
    from horizon_app.settings import AppSettings

SpecArgument = Annotated[
    Path | None, typer.Argument(metavar="SPEC", help="YAML or JSON file; paths in it are relative to it.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another value for one key, e.g. training.optimizer_steps=50."),
]
ResumeOption = Annotated[str | None, typer.Option("--resume", metavar="RUN_ID", help="Not available yet.")]


def run(
    spec: SpecArgument = None,
    settings_given: SetOption = None,
    as_json: JsonOption = False,
    resume: ResumeOption = None,
    home: HomeOption = None,
) -> None:
    """Train one run in the foreground.

    Ctrl-C saves the model at the next optimizer step and stops; a second Ctrl-C ends the run at once.
    Exit code: 0 finished, 1 failed, 2 bad spec, 130 interrupted.
    """
    if resume is not None:
        say("--resume is not available yet; start a new run whose model.path is the last checkpoint's folder")
        raise typer.Exit(ASKED_WRONGLY)
    if spec is None:
        say("name a spec file: horizon run SPEC")
        raise typer.Exit(ASKED_WRONGLY)
    with exit_codes():
        settings = make_settings(home=home)
        source = _read_spec(spec, settings_given or [], as_json=as_json)
        raise typer.Exit(_train(source, settings, as_json=as_json))


def _read_spec(path: Path, settings_given: list[str], *, as_json: bool) -> "SpecSource":
    from horizon_app.cli.overrides import apply_overrides
    from horizon_app.cli.spec_file import read_spec_file
    from horizon_app.contracts.problems import SpecRefused

    try:
        source = apply_overrides(read_spec_file(path), settings_given)
        source.parse()
    except SpecRefused as refused:
        _refuse(refused, as_json=as_json)
        raise
    return source


def _refuse(refused: "SpecRefused", *, as_json: bool) -> None:
    say_problems(refused)
    if as_json:
        from horizon_app.cli.run_summary import json_body
        from horizon_app.contracts.events import RunOutcome
        from horizon_app.contracts.run_state import RunState

        _print_json(json_body(None, RunOutcome(state=RunState.FAILED, reason=str(refused))))
    raise typer.Exit(ASKED_WRONGLY)


def _train(source: "SpecSource", settings: "AppSettings", *, as_json: bool) -> int:
    from horizon_app.cli.foreground import ForegroundRun
    from horizon_app.cli.run_progress import RunProgress
    from horizon_app.cli.run_summary import json_body, outcome_of, summary_lines
    from horizon_app.contracts.problems import SpecRefused
    from horizon_app.control.workstation import Workstation

    with Workstation(settings) as station, RunProgress() as progress:
        foreground = ForegroundRun(station, settings.runs_dir, progress)
        try:
            detail = asyncio.run(foreground.train(source.document, source.path.absolute().parent))
        except SpecRefused as refused:
            _refuse(source.placed(refused), as_json=as_json)
            raise
    if as_json:
        _print_json(json_body(detail.id, outcome_of(detail)))
    else:
        sys.stdout.write("\n".join(summary_lines(detail, settings.runs_dir)) + "\n")
    return _exit_code(detail, interrupted=foreground.interrupts > 0)


def _exit_code(detail: "RunDetail", *, interrupted: bool) -> int:
    from horizon_app.contracts.run_state import RunState

    if detail.state is RunState.FINISHED:
        return 0
    return INTERRUPTED if interrupted or detail.state is RunState.STOPPED else FAILED


def _print_json(body: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(body, ensure_ascii=False) + "\n")
