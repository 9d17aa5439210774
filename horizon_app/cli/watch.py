"""`horizon runs watch`: a run until it has ended, or all that runs and waits until nothing is left."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from horizon_app.cli.completion import complete_run
from horizon_app.cli.printable import write_json, write_lines
from horizon_app.cli.refusals import FAILED, INTERRUPTED, exit_codes, say
from horizon_app.cli.settings_option import HomeOption, make_settings

if TYPE_CHECKING:
    from pydantic import BaseModel

    from horizon_app.cli.watched_queue import WatchedQueue
    from horizon_app.contracts.frames import Frame
    from horizon_app.contracts.run_state import RunState
    from horizon_app.contracts.run_view import RunDetail
    from horizon_app.settings import AppSettings

RunOrAllArgument = Annotated[
    str | None,
    typer.Argument(metavar="[RUN_ID]", help="All that is live or queued unless set.", autocompletion=complete_run),
]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print JSON Lines: one frame of the stream a line.")]
AfterOption = Annotated[
    int | None,
    typer.Option("--after", metavar="SEQ", min=0, help="Begin behind this frame; 0 is the run's beginning."),
]
_REPLAYED = 200
"""Frames of the past that fill the log of a view that has just been opened."""
_REDRAWN_HZ = 4.0
_NOTHING_LEFT = "nothing runs and nothing waits"


def watch_runs(
    run_id: RunOrAllArgument = None, after: AfterOption = None, as_json: JsonLinesOption = False,
    home: HomeOption = None,
) -> None:  # fmt: skip
    """Watch a run until it has ended; without one, all live and queued runs until none is left.

    Ctrl-C ends the watching and leaves the runs alone; so does a restart of the server leave the watching. Exit code:
    0 finished, 1 failed or interrupted, 130 stopped, or Ctrl-C.
    """
    with exit_codes():
        settings = make_settings(home=home)
        try:
            if run_id is None:
                _watch_all(settings, as_json=as_json)
                return
            ended = _watch_one(settings, run_id, after, as_json=as_json)
        except KeyboardInterrupt:
            say("no longer watched; what runs goes on")
            raise typer.Exit(INTERRUPTED) from None
        raise typer.Exit(_exit_code(ended.state))


def _watch_one(settings: "AppSettings", run_id: str, after: int | None, *, as_json: bool) -> "RunDetail":
    from horizon_app.cli.following import follow
    from horizon_app.cli.history import open_history

    with open_history(settings) as history:
        run = history.show(run_id)
    if as_json:
        if after is None:
            _write_snapshot(run)
        return follow(settings, run_id, _write_line, after=run.last_seq if after is None else after)
    if sys.stdout.isatty():
        return _draw(settings, run)
    return _tell(settings, run, run.last_seq if after is None else after)


def _draw(settings: "AppSettings", run: "RunDetail") -> "RunDetail":
    from rich.live import Live

    from horizon_app.cli.following import follow
    from horizon_app.cli.watched_run import WatchedRun

    view = WatchedRun(run)
    with Live(view, refresh_per_second=_REDRAWN_HZ):
        return follow(settings, run.id, view.take, after=max(0, run.last_seq - _REPLAYED))


def _tell(settings: "AppSettings", run: "RunDetail", after: int) -> "RunDetail":
    from rich.console import Console

    from horizon_app.cli.following import follow
    from horizon_app.cli.run_progress import RunProgress
    from horizon_app.cli.run_summary import detail_lines
    from horizon_app.contracts.events import StateChanged

    with RunProgress(Console(file=sys.stdout, soft_wrap=True), total=run.total_steps) as progress:

        def show(frame: "Frame") -> None:
            if isinstance(frame, StateChanged):
                progress.say(f"{frame.state.value}{f': {frame.reason}' if frame.reason else ''}")
            progress.show(frame)
            sys.stdout.flush()

        ended = follow(settings, run.id, show, after=after)
    write_lines(detail_lines(ended, settings.runs_dir))
    return ended


def _watch_all(settings: "AppSettings", *, as_json: bool) -> None:
    from horizon_app.cli.watched_queue import WatchedQueue, rounds

    watched = WatchedQueue()
    if as_json:
        for changed in rounds(settings, watched):
            for frame in changed:
                _write_line(frame)
    elif sys.stdout.isatty():
        _draw_all(settings, watched)
    else:
        _tell_all(settings, watched)


def _draw_all(settings: "AppSettings", watched: "WatchedQueue") -> None:
    from rich.live import Live

    from horizon_app.cli.watched_queue import rounds, state_line
    from horizon_app.contracts.frames import RunFrame
    from horizon_app.contracts.run_state import ENDED

    with Live(watched, refresh_per_second=_REDRAWN_HZ, transient=True) as live:
        for changed in rounds(settings, watched):
            for frame in changed:
                if not isinstance(frame, RunFrame) or frame.run.state in ENDED:
                    live.console.print(state_line(frame), markup=False, highlight=False)
    write_lines([_NOTHING_LEFT])


def _tell_all(settings: "AppSettings", watched: "WatchedQueue") -> None:
    from horizon_app.cli.watched_queue import rounds, state_line
    from horizon_app.contracts.frames import RunFrame

    states: dict[str, RunState] = {}
    for changed in rounds(settings, watched):
        for frame in changed:
            if isinstance(frame, RunFrame):
                if states.get(frame.run.id) is frame.run.state:
                    continue
                states[frame.run.id] = frame.run.state
            write_lines([state_line(frame)])
        sys.stdout.flush()
    write_lines([_NOTHING_LEFT])


def _write_snapshot(run: "RunDetail") -> None:
    from datetime import UTC, datetime

    from horizon_app.contracts.frames import SnapshotFrame

    _write_line(SnapshotFrame(seq=run.last_seq, time=datetime.now(UTC), run=run))


def _write_line(frame: "BaseModel") -> None:
    write_json(frame.model_dump_json())
    sys.stdout.flush()  # whoever reads a pipe wants each frame when it happens


def _exit_code(state: "RunState") -> int:
    from horizon_app.contracts.run_state import RunState

    if state is RunState.FINISHED:
        return 0
    return INTERRUPTED if state is RunState.STOPPED else FAILED
