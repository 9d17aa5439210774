"""A run's model, written as a folder for others by a process of its own: the server never loads a model."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from horizon_app.contracts.export import (
    EXPORT_EVENT,
    ExportAsked,
    Exported,
    ExportOrder,
    ExportRefused,
)
from horizon_app.contracts.problems import SpecRefused
from horizon_app.control.errors import ExportBusy, ExportFailed
from horizon_app.control.paths import PathRefused, PathRules
from horizon_app.control.process_log import last_line
from horizon_app.control.run_models import SavedModel

MODULE = "horizon_app.worker.export"
_writing = threading.Lock()
"""Held while a model is written: two at once could need twice the memory of one."""


def export_model(
    model: SavedModel, asked: ExportAsked, rules: PathRules, on_stage: Callable[[str], None] = lambda message: None
) -> Exported:
    """Write a checkpoint to the folder that `asked` names; `on_stage` hears what is being done.

    Raises SpecRefused for a path that may not be used, ExportBusy while another model is written, ExportFailed for
    everything else; the folder is then as it was.
    """
    try:
        target = rules.resolve_new(asked.path)
    except PathRefused as error:
        raise SpecRefused([error.problem("path")]) from error
    order = ExportOrder(
        source=str(model.folder), target=str(target), format=asked.format, dtype=asked.written_dtype,
        shard_bytes=asked.shard_size, run_id=model.run_dir.name, checkpoint=model.step,
        chat_template=model.chat_template,
        folders=None if rules.roots is None else [str(root) for root in rules.roots],
    )  # fmt: skip
    if not _writing.acquire(blocking=False):
        raise ExportBusy
    try:
        return _run(order, model.run_dir / "export.log", on_stage)
    finally:
        _writing.release()


def _run(order: ExportOrder, log_path: Path, on_stage: Callable[[str], None]) -> Exported:
    with (
        log_path.open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")
        process.stdin.write(order.model_dump_json().encode() + b"\n")
        process.stdin.close()
        for line in process.stdout:
            event = EXPORT_EVENT.validate_json(line)
            if isinstance(event, Exported):
                return event
            if isinstance(event, ExportRefused):
                raise ExportFailed(event.message)
            on_stage(event.message)
    raise ExportFailed(f"the process that exports ended with {process.returncode}{last_line(log_path)}")
