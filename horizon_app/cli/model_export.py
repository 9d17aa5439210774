"""Exports of models, as the command line asks for them and tells of them."""

from pathlib import Path

from pydantic import ValidationError

from horizon_app.contracts.export import ExportAsked, Exported
from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.contracts.sizes import show_bytes


def asked_export(
    folder: Path, *, format: str, dtype: str | None, checkpoint: int | None, shard_size: str
) -> ExportAsked:  # fmt: skip
    """What the options mean. Raises SpecRefused that names the option."""
    given = {
        "path": str(folder), "format": format, "dtype": dtype, "checkpoint": checkpoint, "shard_size": shard_size,
    }  # fmt: skip
    try:
        return ExportAsked.model_validate(given)
    except ValidationError as error:
        problems = [
            FieldProblem(
                field=f"--{str(one['loc'][0]).replace('_', '-')}" if one["loc"] else "--dtype",
                message=one["msg"].removeprefix("Value error, "),
            )
            for one in error.errors()
        ]
        raise SpecRefused(problems) from error


def export_lines(done: Exported) -> list[str]:
    """What an export is, for people."""
    weights = [file for file in done.files if file.name.endswith((".safetensors", ".gguf"))]
    loaded = "loaded with transformers, logits finite" if done.loaded else "not loaded"
    return [
        f"{done.path} is ready: step {done.checkpoint} as {done.format} {done.dtype}",
        f"  holds       {done.parameters:,} parameters, {show_bytes(done.bytes)} in {len(done.files)} files "
        f"({len(weights)} of weights)",
        f"  checked     {done.compared_tensors} tensors read back and equal; {loaded}",
        f"  took        {done.seconds:.1f} s, {show_bytes(done.peak_bytes)} of memory at most",
        *[f"  note        {note}" for note in done.notes],
    ]
