"""`horizon model`: what a checkpoint holds, and checkpoints from other formats."""

import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizon_app.cli.printable import write_lines
from horizon_app.cli.refusals import ASKED_WRONGLY, CommandFailed, exit_codes, say
from horizon_app.cli.runs import print_json
from horizon_app.cli.settings_option import JsonOption

if TYPE_CHECKING:
    import torch

    from horizon_app.engine.model.gguf import Conversion
    from horizon_app.engine.model.import_weights import Source
    from horizon_app.engine.model.inspect import Inspection

model_app = typer.Typer(help="Look into checkpoints, and import them.", no_args_is_help=True)


class Dtype(StrEnum):
    """Formats that a conversion writes."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"


FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="A Hugging Face checkpoint folder.")]
InArgument = Annotated[
    Path,
    typer.Argument(metavar="IN", help="A GGUF or .bin file, or a folder with such files or safetensors shards."),
]
OutArgument = Annotated[Path, typer.Argument(metavar="OUT", help="The folder to make; must be new or empty.")]
DtypeOption = Annotated[
    Dtype | None, typer.Option("--dtype", help="Format of the written weights; bf16 for GGUF, else as they are stored.")
]


@model_app.command("inspect")
def inspect(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Show what a checkpoint holds, whether it can be trained and why not, and weights that are NaN or infinite.

    Exit code: 0 it was looked into, trainable or not; 2 there is no such folder.
    """
    if not folder.is_dir():
        say(f"there is no folder {folder}")
        raise typer.Exit(ASKED_WRONGLY)
    with exit_codes():
        from horizon_app.control.model_folder import read_model_facts
        from horizon_app.engine.model.inspect import inspect_model
        from horizon_app.engine.training.rehearsal import rehearse

        found = inspect_model(folder, read_model_facts(folder), rehearse)
    if as_json:
        print_json({"path": str(folder), **asdict(found)})
    else:
        write_lines(_inspection_lines(found))


@model_app.command("convert")
def convert(source: InArgument, out: OutArgument, dtype: DtypeOption = None, as_json: JsonOption = False) -> None:
    """Write a GGUF model, or one with pickled (.bin) or sharded weights, as a folder that can be trained.

    Pickled files are read in a process of their own, which makes tensors of them and nothing else. Exit code: 0 written
    and checked, 1 refused or failed; OUT is then as it was.
    """
    os.environ.setdefault("TQDM_DISABLE", "1")  # the bars of libraries, which would stand between our own lines
    with exit_codes():
        from horizon_app.engine.errors import EngineError
        from horizon_app.engine.model.import_weights import Kind, find_source

        try:
            found = find_source(source)
            answer, lines = _from_gguf(found, out, dtype) if found.kind is Kind.GGUF else _import(found, out, dtype)
        except EngineError as error:
            raise CommandFailed(str(error)) from error
    if as_json:
        print_json({"path": str(out), **answer})
    else:
        write_lines(lines)


def _torch_dtype(dtype: Dtype) -> "torch.dtype":
    import torch

    return {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16, Dtype.FP32: torch.float32}[dtype]


def _from_gguf(source: "Source", out: Path, dtype: Dtype | None) -> tuple[dict[str, Any], list[str]]:
    from horizon_app.engine.model.gguf import convert_gguf

    written = dtype or Dtype.BF16
    done = convert_gguf(source.files[0], out, dtype=_torch_dtype(written), on_stage=say)
    return {"dtype": written.value, **asdict(done)}, _conversion_lines(done, out, written)


def _import(source: "Source", out: Path, dtype: Dtype | None) -> tuple[dict[str, Any], list[str]]:
    from horizon_app.contracts.sizes import show_bytes
    from horizon_app.engine.model.import_weights import import_weights

    done = import_weights(source, out, dtype=None if dtype is None else _torch_dtype(dtype), on_stage=say)
    lines = [
        f"{out} is ready: {done.architecture}, {done.tensors} tensors, {show_bytes(done.num_bytes)} "
        f"{'as they were stored' if dtype is None else f'in {dtype}'}",
        f"  from        {done.kind} weights",
        "  checked     every tensor of the model is there, in its shape",
    ]
    return {"dtype": None if dtype is None else dtype.value, **asdict(done)}, lines


def _inspection_lines(found: "Inspection") -> list[str]:
    template = {True: "with a chat template", False: "without a chat template", None: ""}[found.has_chat_template]
    tied = {True: "tied to the embedding", False: "has weights of its own", None: None}[found.tied]
    rows = [
        ("architecture", found.architecture),
        ("model_type", found.model_type),
        ("layers", found.layers),
        ("parameters", None if found.parameters is None else f"{found.parameters:,}"),
        ("dtype", found.dtype),
        ("LM head", tied),
        ("embedding", None if found.embedding_rows is None else f"{found.embedding_rows:,} rows"),
        ("tokenizer", None if found.tokenizer_size is None else f"{found.tokenizer_size:,} tokens, {template}"),
        ("trainable", "yes" if found.trainable else "no"),
    ]
    lines = [f"{label:<13} {'unknown' if value is None else value}" for label, value in rows]
    lines += [f"  because     {reason}" for reason in found.obstacles]
    lines += [
        f"  problem     {bad.name} holds {bad.count:,} values that are not finite, the first ({bad.first}) at "
        f"{list(bad.first_index)}: a run that computes with them stops there"
        for bad in found.nonfinite
    ]
    if found.groups:
        width = max(len(group.name) for group in found.groups)
        lines += ["", f"{'stored in':<{width}}  tensors      parameters  dtype"]
        lines += [f"{g.name:<{width}}  {g.tensors:>7}  {g.parameters:>14,}  {g.dtype}" for g in found.groups]
    return lines


def _conversion_lines(done: "Conversion", out: Path, dtype: Dtype) -> list[str]:
    from horizon_app.contracts.sizes import show_bytes

    template = "with" if done.has_chat_template else "without"
    head = "tied to the embedding, stored once" if done.tied else "with weights of its own"
    return [
        f"{out} is ready: {done.architecture}, {done.parameters:,} parameters, {show_bytes(done.num_bytes)} in {dtype}",
        f"  from        {done.encoding}, without quantisation now",
        f"  LM head     {head}",
        f"  tokenizer   {done.num_tokens:,} tokens, {template} a chat template",
        f"  checked     loaded again, its logits for {done.prompt_tokens} tokens equal those of the GGUF file: "
        f"difference {done.difference:.2g} standard deviations, {done.tolerance:g} allowed for {dtype}",
    ]
