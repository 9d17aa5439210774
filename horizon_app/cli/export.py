"""`horizon runs export`: a run's history as a file, or its model as a folder that others can load."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from horizon_app.cli.printable import write_json, write_lines
from horizon_app.cli.refusals import ASKED_WRONGLY, CommandFailed, exit_codes, say
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from horizon_app.control.history_export import ExportFormat
    from horizon_app.settings import AppSettings

RunArgument = Annotated[str, typer.Argument(metavar="RUN_ID")]
ModelOption = Annotated[
    Path | None,
    typer.Option("--model", metavar="DIR", help="Export the model, into this folder; must be new or empty."),
]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="csv, json or html: the history. With --model: safetensors or gguf.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the history goes; else standard output.")
]
DtypeOption = Annotated[
    str | None, typer.Option("--dtype", help="bf16 (the default), fp16 or fp32; for gguf fp16 (the default) or q8_0.")
]
CheckpointOption = Annotated[int | None, typer.Option("--checkpoint", metavar="STEP", help="The newest unless set.")]
ShardOption = Annotated[
    str | None, typer.Option("--shard-size", help="Largest safetensors file, for example 2GiB; 4GiB unless set.")
]


def export_run(  # noqa: PLR0913 - one parameter an option
    run_id: RunArgument,
    format: FormatOption = None,
    output: OutputOption = None,
    model: ModelOption = None,
    dtype: DtypeOption = None,
    checkpoint: CheckpointOption = None,
    shard_size: ShardOption = None,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Write a run's history (--format csv, json or html), or its model into a folder that others can load (--model).

    Exit code: 0 written (a model is read back and loaded before it appears), 1 refused or failed, 2 asked wrongly;
    the target is then as it was.
    """
    if model is None:
        _refuse_mixture("a history", {"--dtype": dtype, "--checkpoint": checkpoint, "--shard-size": shard_size})
        if as_json:
            _refuse("--json tells about an exported model; a history as JSON is --format json")
        with exit_codes():
            _export_history(make_settings(home=home), run_id, format, output)
        return
    _refuse_mixture("a model", {"--output": output})
    with exit_codes():
        settings = make_settings(home=home)
        _export_model(settings, run_id, model, format, dtype, checkpoint, shard_size, as_json)


def _refuse_mixture(what: str, given: dict[str, object]) -> None:
    mixed = [option for option, value in given.items() if value is not None]
    if mixed:
        other = "a model, which --model DIR exports" if what == "a history" else "a history, exported without --model"
        _refuse(f"{', '.join(mixed)}: not for {what}, only for {other}")


def _refuse(text: str) -> None:
    say(text)
    raise typer.Exit(ASKED_WRONGLY)


def _export_history(settings: "AppSettings", run_id: str, format: str | None, output: Path | None) -> None:
    from horizon_app.cli.history import open_history

    form = _history_format(format)
    with open_history(settings) as history:
        write_out(history.export(run_id, form), output)


def _history_format(word: str | None) -> "ExportFormat":
    from horizon_app.control.errors import BadQuery
    from horizon_app.control.history_export import ExportFormat

    try:
        return ExportFormat(word or "")
    except ValueError:
        forms = ", ".join(form.value for form in ExportFormat)
        given = "is missing" if word is None else f"{word[:40]!r} is none"
        message = f"{given}; a history is exported as {forms}, and a model with --model DIR"
        raise BadQuery(field="format", message=message) from None


def write_out(parts: Iterator[bytes], output: Path | None) -> None:
    """Write a file as it comes, whole or not at all; to standard output where none is named. Raises CommandFailed."""
    if output is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    _refuse_occupied(output)
    if not output.parent.is_dir():
        raise CommandFailed(f"{output.parent} is no folder; make it first, or name another file")
    partial = output.parent / f".horizon-{os.getpid()}.partial"  # a name may be as long as names can be
    try:
        with partial.open("xb") as file:
            for part in parts:
                file.write(part)
        _give_name(partial, output)
    finally:
        partial.unlink(missing_ok=True)
    say(f"{output} is written, {output.stat().st_size:,} bytes")


def _give_name(partial: Path, output: Path) -> None:
    """A link is made only where nothing has the name, however lately that came; not every file system makes links."""
    try:
        os.link(partial, output)
    except OSError:
        _refuse_occupied(output)
        partial.rename(output)


def _refuse_occupied(output: Path) -> None:
    if os.path.lexists(output):
        raise CommandFailed(f"{output} is there already; name another file, or remove it first")


def _export_model(
    settings: "AppSettings", run_id: str, model: Path, format: str | None, dtype: str | None, checkpoint: int | None,
    shard_size: str | None, as_json: bool,
) -> None:  # fmt: skip
    from horizon_app.cli.history import open_history
    from horizon_app.cli.model_export import asked_export, export_lines
    from horizon_app.control.exports import export_model
    from horizon_app.control.paths import rules_for_user
    from horizon_app.control.run_models import saved_model

    asked = asked_export(
        model, format=format or "safetensors", dtype=dtype, checkpoint=checkpoint, shard_size=shard_size or "4GiB"
    )
    with open_history(settings) as history:
        saved = saved_model(history.show(run_id), settings.runs_dir, checkpoint)
    done = export_model(saved, asked, rules_for_user(Path.cwd()), say)
    if as_json:
        write_json(done.model_dump_json(exclude={"type"}))
    else:
        write_lines(export_lines(done))
