"""`python -m horizon_app.worker.export`: writes a checkpoint as a model for others, in a process of its own.

The order is one line of JSON on standard input; standard output has a line of JSON for each stage, and one for the end.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from horizon_app.contracts.checkpoints import link_in
from horizon_app.contracts.confinement import require_inside
from horizon_app.contracts.export import (
    ABOUT,
    Exported,
    ExportedFile,
    ExportFormat,
    ExportOrder,
    ExportRefused,
    ExportStage,
)
from horizon_app.contracts.sizes import show_bytes
from horizon_app.data.templates import built_in_template
from horizon_app.engine.errors import CheckpointUnusable, EngineError
from horizon_app.worker.answers import Say, own_output
from horizon_app.worker.environment import prepare_process
from horizon_app.worker.failure import failure_reason

_LOAD_SHARE = 1.3
"""Memory that transformers takes to load a model, by the bytes of its weights."""
_LOAD_BYTES = 700 << 20
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


def main(order: ExportOrder, say: Say) -> int:
    """Carry the order out; gives the exit code."""
    try:
        say(export(order, lambda message: say(ExportStage(message=message))))
    except EngineError as error:
        say(ExportRefused(message=str(error)))
        return 1
    # The process's entry: whatever goes wrong, in any library, is told to whoever waits.
    except Exception as error:  # noqa: BLE001
        say(ExportRefused(message=failure_reason(error, "exporting", Path(order.target).parent)))
        return 1
    return 0


def export(order: ExportOrder, on_stage: Callable[[str], None]) -> Exported:
    """Write, read back, load. Raises EngineError, LeadsOut, OSError."""
    import torch

    from horizon_app.engine.model.export import open_checkpoint
    from horizon_app.engine.model.export_formats import written_model
    from horizon_app.engine.model.new_folder import appearing
    from horizon_app.engine.model.tensor_writer import write_hashed

    begin = time.perf_counter()
    torch.set_grad_enabled(False)
    _refuse_links(Path(order.source))
    source = open_checkpoint(Path(order.source), built_in_template(order.chat_template))
    target = Path(order.target)
    allowed = None if order.folders is None else [Path(text) for text in order.folders]
    require_inside(target, allowed)
    with appearing(target, may_replace=is_own) as folder:
        require_inside(folder, allowed)  # it lies where the target will: a link above it shows before a byte is written
        written = written_model(source, folder, order, on_stage)
        loaded, notes = _load(folder, order, [file.name for file in written.files], on_stage)
        files = [ExportedFile(name=f.name, bytes=f.num_bytes, sha256=f.sha256) for f in written.files]
        about = {
            "run": order.run_id, "checkpoint": order.checkpoint, "format": order.format, "dtype": order.dtype,
            "files": [file.model_dump() for file in files],
        }  # fmt: skip
        write_hashed(folder / ABOUT, (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode())
        require_inside(folder, allowed)  # hours may have passed
    if source.fused_experts:
        notes.append(
            f"the experts of a layer are one tensor ({source.fused_experts[0]}), which transformers reads from "
            "version 5 on and other tools may not"
        )
    return Exported(
        path=str(target), format=order.format, dtype=order.dtype, checkpoint=order.checkpoint,
        parameters=source.parameters, bytes=sum(file.bytes for file in files), files=files,
        compared_tensors=written.compared, loaded=loaded, notes=notes,
        seconds=round(time.perf_counter() - begin, 3),
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT,
    )  # fmt: skip


def _refuse_links(source: Path) -> None:
    if link := link_in(source):
        raise CheckpointUnusable(f"{source}: {link}")


def is_own(folder: Path) -> bool:
    """Whether a folder holds an export of ours and nothing else."""
    try:
        named = {file["name"] for file in json.loads((folder / ABOUT).read_bytes())["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return there == named | {ABOUT}


def _load(
    folder: Path, order: ExportOrder, names: list[str], on_stage: Callable[[str], None]
) -> tuple[bool, list[str]]:
    """Whether transformers loaded it, and what to say where it was not tried. Raises ExportImpossible."""
    from horizon_app.engine.model.export import ExportImpossible

    weights = [name for name in names if name.endswith((".safetensors", ".gguf"))]
    size = sum((folder / name).stat().st_size for name in weights)
    # transformers makes fp32 of a GGUF file.
    needed = int(size * _LOAD_SHARE * (4 if order.format is ExportFormat.GGUF else 1)) + _LOAD_BYTES
    free = psutil.virtual_memory().available
    if needed > free:
        told = f"loading it takes about {show_bytes(needed)}, and {show_bytes(free)} are free"
        return False, [f"not loaded with transformers: {told}; every tensor was read back and compared"]
    on_stage("loading it with transformers, in a process of its own")
    command = [sys.executable, "-m", "horizon_app.engine.model.load_check", str(folder)]
    command += [weights[0], order.source] if order.format is ExportFormat.GGUF else []
    ran = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )
    last = (ran.stderr.strip().splitlines() or [f"it ended with {ran.returncode}"])[-1]
    if ran.returncode != 0:
        raise ExportImpossible(f"transformers can't load what was written: {last[:400]}; nothing was kept")
    found: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    if found["wrong"] or not found["finite"]:
        why = f"tensors that do not fit: {', '.join(found['wrong'])}" if found["wrong"] else "its logits are not finite"
        raise ExportImpossible(f"transformers loads what was written, but {why}; nothing was kept")
    return True, []


if __name__ == "__main__":
    prepare_process()
    sys.exit(main(ExportOrder.model_validate_json(sys.stdin.buffer.readline()), own_output()))
