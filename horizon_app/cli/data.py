"""`horizon data`: what lies in data files, as a model would see it."""

import sys
import unicodedata
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from horizon_app.cli.refusals import ASKED_WRONGLY, FAILED, exit_codes, say
from horizon_app.cli.settings_option import JsonOption

if TYPE_CHECKING:
    from horizon_app.data.preview import DataPreview, SampleView

data_app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True)

PathArgument = Annotated[Path, typer.Argument(metavar="PATH", help="A data file, or a folder of them.")]
FormatOption = Annotated[str, typer.Option("--format", metavar="FORMAT", help="auto, messages or text.")]
TokenizerOption = Annotated[
    Path | None,
    typer.Option("--tokenizer", metavar="DIR", help="Model folder: shows the tokens that this model would see."),
]


@data_app.callback()
def data() -> None:
    """Look at data before training on it."""


@data_app.command("preview")
def data_preview(
    path: PathArgument, format: FormatOption = "auto", tokenizer: TokenizerOption = None, as_json: JsonOption = False
) -> None:
    """Show the format, the first samples with what is trained in ⟦brackets⟧, and every problem by line.

    Exit code: 0 the data can be used, 1 it has problems, 2 asked wrongly.
    """
    from horizon_app.contracts.run_spec import DataFormat

    if format not in set(DataFormat):
        say(f"--format {format} is unknown; use one of {', '.join(DataFormat)}")
        raise typer.Exit(ASKED_WRONGLY)
    with exit_codes():
        from horizon_app.data.preview import preview

        found = preview([path], DataFormat(format), tokenizer_dir=tokenizer)
        sys.stdout.write(found.model_dump_json() + "\n" if as_json else "\n".join(_lines(found)) + "\n")
        _say_troubles(found)
    if found.num_problems:
        raise typer.Exit(FAILED)


def _lines(found: "DataPreview") -> list[str]:
    lines = [f"{found.format or 'no'} rows: {found.num_rows} in {len(found.files)} files"]
    for number, sample in enumerate(found.samples, 1):
        lines += ["", f"sample {number}, {sample.file}:{sample.line}{_counts(sample)}", _marked(sample)]
    return lines


def _counts(sample: "SampleView") -> str:
    if sample.num_tokens is None:
        return ""
    shown = f", the first {len(sample.tokens)} shown" if len(sample.tokens) < sample.num_tokens else ""
    return f": {sample.num_tokens} tokens, {sample.num_trained} trained{shown}"


def _marked(sample: "SampleView") -> str:
    """The sample's text, with brackets around what is trained."""
    runs = groupby(sample.tokens, key=lambda token: token[1])
    texts = [(trained, "".join(text for text, _ in run)) for trained, run in runs]
    return "".join(f"⟦{_printable(text)}⟧" if trained else _printable(text) for trained, text in texts)


def _printable(text: str) -> str:
    """Data may hold anything; a terminal gets no control characters from it."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else f"\\x{ord(c):02x}" for c in text)


def _say_troubles(found: "DataPreview") -> None:
    from horizon_app.cli.problem_lines import problem_line

    for warning in found.warnings:
        say(f"warning: {warning}")
    for problem in found.problems:
        say(problem_line(problem))
    if found.num_problems > len(found.problems):
        say(f"and {found.num_problems - len(found.problems)} more problems")
