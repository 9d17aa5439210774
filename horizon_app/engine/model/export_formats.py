"""The formats that a checkpoint is exported as: each writes its files, and reads them back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from horizon_app.contracts.export import ExportDtype, ExportFormat, ExportOrder
from horizon_app.engine.model.export import OnStage, Source, compare_safetensors, write_safetensors
from horizon_app.engine.model.tensor_writer import WrittenFile

_TORCH = {
    ExportDtype.BF16: torch.bfloat16, ExportDtype.FP16: torch.float16, ExportDtype.FP32: torch.float32,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenModel:
    """The files of an export, read back."""

    files: Sequence[WrittenFile]
    compared: int  # tensors


def written_model(source: Source, folder: Path, order: ExportOrder, on_stage: OnStage) -> WrittenModel:
    """Fill the empty `folder` and compare what is there with what was meant. Raises WeightsUnusable, OSError."""
    if order.format is ExportFormat.GGUF:
        from horizon_app.engine.model.gguf_export import export_gguf

        files, compared = export_gguf(source, folder, order.dtype, on_stage)
        return WrittenModel(files=files, compared=compared)
    dtype = _TORCH[order.dtype]
    files = write_safetensors(source, folder, dtype, shard_bytes=order.shard_bytes, on_stage=on_stage)
    on_stage("reading every tensor back")
    return WrittenModel(files=files, compared=compare_safetensors(source, folder, dtype))
