"""`horizon data`: what lies in data files, as a model would see it."""

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from horizon_app.cli.printable import printable, write_json
from horizon_app.cli.refusals import FAILED, exit_codes, say
from horizon_app.cli.settings_option import JsonOption

if TYPE_CHECKING:
    from horizon_app.contracts.data_spec import DataSpec
    from horizon_app.contracts.data_view import DataPreview, SampleView

_MOST_SAID = 50
data_app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True)

PathsArgument = Annotated[list[Path], typer.Argument(metavar="PATH...", help="Data files, or folders of them.")]
FormatOption = Annotated[
    str,
    typer.Option("--format", metavar="FORMAT", help="auto, messages, sharegpt, alpaca, prompt_completion or text."),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option("--tokenizer", metavar="DIR", help="Model folder: shows the tokens that this model would see."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of the spec's data section, e.g. sequence_length=64."),
]
SamplesOption = Annotated[
    int | None, typer.Option("--samples", min=0, max=1000, help="Most samples to show: 3, or 20 with --json.")
]
WholeOption = Annotated[
    bool, typer.Option("--whole", help="Look at all of the data: without it, much data is looked at in its beginning.")
]


@data_app.callback()
def data() -> None:
    """Look at data before training on it."""


@data_app.command("preview")
def data_preview(
    paths: PathsArgument,
    format: FormatOption = "auto",
    tokenizer: TokenizerOption = None,
    settings_given: SetOption = None,
    samples: SamplesOption = None,
    whole: WholeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the format, the first samples with what is trained in ⟦brackets⟧, and every problem by line.

    Exit code: 0 the data can be used, 1 it has problems, 2 asked wrongly.
    """
    with exit_codes():
        spec = _data_spec(paths, format, settings_given or [])
        from horizon_app.data.preview import preview

        most = samples if samples is not None else 20 if as_json else 3
        found = preview(paths, spec, tokenizer_dir=tokenizer, whole=whole, most_samples=most)
        if as_json:
            write_json(found.model_dump_json())
        else:
            sys.stdout.write(printable("\n".join(_lines(found))) + "\n")
        _say_troubles(found)
    if found.num_errors:
        raise typer.Exit(FAILED)


def _data_spec(paths: list[Path], format: str, settings_given: list[str]) -> "DataSpec":
    """The data section that the options make. Raises SpecRefused."""
    from horizon_app.cli.overrides import apply_overrides
    from horizon_app.cli.spec_file import SpecSource

    document = {"model": {"path": "-"}, "data": {"path": [str(path) for path in paths], "format": format}}
    source = SpecSource(path=Path("--format"), document=document)
    return apply_overrides(source, [f"data.{given}" for given in settings_given]).parse().data


def _lines(found: "DataPreview") -> list[str]:
    lines = [_file_line(found)]
    for number, sample in enumerate(found.samples, 1):
        piece = f" piece {sample.piece}" if sample.piece else ""
        lines += ["", f"sample {number}, {sample.file}:{sample.line}{piece}{_counts(sample)}", _marked(sample)]
    return lines


def _file_line(found: "DataPreview") -> str:
    told = [f"{found.format or 'no'} rows: {found.rows} in {len(found.files)} files"]
    if found.used is not None:
        told.append(f"{found.used} used, {found.num_tokens} tokens, {found.num_trained_tokens} trained")
    if not found.complete:
        told.append("only the beginning was looked at; --whole looks at everything")
    for file in found.files[:1]:
        reasons = [file.container_reason, *file.formats.values()]
        told.append(f"{file.container}{f' in {file.compression}' if file.compression else ''}: {'; '.join(reasons)}")
    return "\n".join(told)


def _counts(sample: "SampleView") -> str:
    if sample.num_tokens is None:
        return ""
    shown = f", the first {len(sample.tokens)} shown" if len(sample.tokens) < sample.num_tokens else ""
    return f": {sample.num_tokens} tokens, {sample.num_trained} trained{shown}"


def _marked(sample: "SampleView") -> str:
    """The sample's text, with brackets around what is trained."""
    runs = groupby(zip(sample.tokens, sample.trained, strict=True), key=lambda token: token[1])
    texts = [(trained, "".join(text for text, _ in run)) for trained, run in runs]
    return "".join(f"⟦{text}⟧" if trained else text for trained, text in texts)


def _say_troubles(found: "DataPreview") -> None:
    from horizon_app.cli.problem_lines import problem_line

    for warning in found.warnings[:_MOST_SAID]:
        say(f"warning: {problem_line(warning)}")
    if len(found.warnings) > _MOST_SAID:
        say(f"and {len(found.warnings) - _MOST_SAID} more warnings")
    for problem in found.errors[:_MOST_SAID]:
        say(problem_line(problem))
    if found.num_errors > _MOST_SAID:
        say(f"and {found.num_errors - _MOST_SAID} more problems")
