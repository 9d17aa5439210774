"""`horizon runs resume, checkpoint, checkpoints, pin`: what goes on from a run's checkpoints."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizon_app.cli.completion import complete_spec_value
from horizon_app.cli.printable import write_lines
from horizon_app.cli.refusals import exit_codes
from horizon_app.cli.runs import RunArgument, print_json, tell_run
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from horizon_app.contracts.run_view import Checkpoint

StepArgument = Annotated[int, typer.Argument(metavar="STEP", min=0, help="Optimizer step of the checkpoint.")]
OffOption = Annotated[bool, typer.Option("--off", help="Take the pin away.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value, e.g. training.optimizer_steps=400.",
        autocompletion=complete_spec_value,
    ),
]


def resume_run(
    run_id: RunArgument, settings_given: SetOption = None, as_json: JsonOption = False, home: HomeOption = None
) -> None:
    """Let a paused run go on; queue an ended one again, from its newest whole checkpoint."""
    from horizon_app.cli.history import open_history
    from horizon_app.cli.overrides import read_changes

    with exit_codes(), open_history(make_settings(home=home)) as history:
        run = history.resume(run_id, read_changes(settings_given or []))
    told = f"is {run.state.value}: {run.reason}" if run.state == "queued" else "was told to go on"
    tell_run(run, told, as_json=as_json)


def save_checkpoint(run_id: RunArgument, as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Have a live run write a checkpoint after its next optimizer step."""
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        run = history.save_checkpoint(run_id)
    tell_run(run, "was asked for a checkpoint", as_json=as_json)


def list_checkpoints(run_id: RunArgument, as_json: JsonOption = False, home: HomeOption = None) -> None:
    """List a run's checkpoints: whole, best, pinned, or broken and why."""
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        answer = history.checkpoints(run_id)
    _show(answer.checkpoints, answer.model_dump(mode="json"), as_json=as_json)


def pin_checkpoint(
    run_id: RunArgument, step: StepArgument, off: OffOption = False, as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:  # fmt: skip
    """Keep a checkpoint from being rotated away."""
    from horizon_app.cli.history import open_history

    with exit_codes(), open_history(make_settings(home=home)) as history:
        answer = history.pin(run_id, step, pinned=not off)
    _show(answer.checkpoints, answer.model_dump(mode="json"), as_json=as_json)


def _show(checkpoints: "list[Checkpoint]", body: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(body)
        return
    write_lines([_line(checkpoint) for checkpoint in checkpoints] or ["no checkpoints yet"])


def _line(checkpoint: "Checkpoint") -> str:
    from horizon_app.contracts.sizes import show_bytes

    marks = [word for word, given in (("best", checkpoint.best), ("pinned", checkpoint.pinned)) if given]
    if checkpoint.eval_loss is not None:
        marks.append(f"eval loss {checkpoint.eval_loss:.4f}")
    if checkpoint.nonfinite:
        marks.append(f"{checkpoint.nonfinite} values not finite")
    if checkpoint.broken:
        marks.append(f"broken: {checkpoint.broken}")
    return f"step {checkpoint.step}  {show_bytes(checkpoint.bytes)}  {', '.join(marks) or 'whole'}"
