"""`horizon run`: one run in the foreground, recorded in the same history as all others."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizon_app.cli.checkpoints import SetOption
from horizon_app.cli.completion import complete_run
from horizon_app.cli.printable import write_lines
from horizon_app.cli.refusals import ASKED_WRONGLY, FAILED, INTERRUPTED, exit_codes, say, say_problems
from horizon_app.cli.runs import print_json
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from horizon_app.cli.foreground import ForegroundRun
    from horizon_app.cli.spec_file import SpecSource
    from horizon_app.contracts.problems import SpecRefused
    from horizon_app.contracts.run_view import RunDetail
    from horizon_app.settings import AppSettings

SpecArgument = Annotated[
    Path | None, typer.Argument(metavar="SPEC", help="YAML or JSON file; paths in it are relative to it.")
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN_ID",
        help="Go on with an ended run from its newest whole checkpoint; --set changes what does not decide its model "
        "or data, e.g. training.optimizer_steps to extend a finished one.",
        autocompletion=complete_run,
    ),
]


def run(
    spec: SpecArgument = None,
    settings_given: SetOption = None,
    as_json: JsonOption = False,
    resume: ResumeOption = None,
    home: HomeOption = None,
) -> None:
    """Train one run in the foreground, or go on with one that has ended.

    Ctrl-C saves the model at the next optimizer step and stops; a second Ctrl-C ends the run at once.
    Exit code: 0 finished, 1 failed, 2 bad spec, 130 interrupted.
    """
    if (spec is None) == (resume is None):
        say("name a spec file, or a run to go on with: horizon run SPEC, or horizon run --resume RUN_ID")
        raise typer.Exit(ASKED_WRONGLY)
    with exit_codes():
        settings = make_settings(home=home)
        if resume is not None:
            raise typer.Exit(_resume(resume, settings_given or [], settings, as_json=as_json))
        assert spec is not None, "one of the two is named"
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

        print_json(json_body(None, RunOutcome(state=RunState.FAILED, reason=str(refused))))
    raise typer.Exit(ASKED_WRONGLY)


def _train(source: "SpecSource", settings: "AppSettings", *, as_json: bool) -> int:
    from horizon_app.contracts.problems import SpecRefused

    try:
        return _see_through(
            settings, lambda run: run.train(source.document, source.path.absolute().parent), as_json=as_json
        )
    except SpecRefused as refused:
        _refuse(source.placed(refused), as_json=as_json)
        raise


def _resume(run_id: str, settings_given: list[str], settings: "AppSettings", *, as_json: bool) -> int:
    from horizon_app.cli.overrides import read_changes
    from horizon_app.contracts.problems import SpecRefused

    try:
        changes = read_changes(settings_given)
        return _see_through(settings, lambda run: run.resume(run_id, changes), as_json=as_json)
    except SpecRefused as refused:
        _refuse(refused, as_json=as_json)
        raise


def _see_through(
    settings: "AppSettings", begin: "Callable[[ForegroundRun], Coroutine[Any, Any, RunDetail]]", *, as_json: bool
) -> int:
    from horizon_app.cli.foreground import ForegroundRun
    from horizon_app.cli.run_progress import RunProgress
    from horizon_app.cli.run_summary import json_body, outcome_of, summary_lines
    from horizon_app.control.workstation import Workstation

    with Workstation(settings) as station, RunProgress() as progress:
        foreground = ForegroundRun(station, settings.runs_dir, progress)
        detail = asyncio.run(begin(foreground))
    if as_json:
        print_json(json_body(detail.id, outcome_of(detail)))
    else:
        write_lines(summary_lines(detail, settings.runs_dir))
    return _exit_code(detail, interrupted=foreground.interrupts > 0)


def _exit_code(detail: "RunDetail", *, interrupted: bool) -> int:
    from horizon_app.contracts.run_state import RunState

    if detail.state is RunState.FINISHED:
        return 0
    return INTERRUPTED if interrupted or detail.state is RunState.STOPPED else FAILED
