"""What is asked of an export of a model, and what was written."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from horizon_app.contracts.spec_fields import Size
from horizon_app.contracts.spec_words import ChatTemplate

ABOUT = "horizon_export.json"
"""What an export says of itself: by it, an export may be written in its place."""


class ExportFormat(StrEnum):
    """Kind of files."""

    SAFETENSORS = "safetensors"
    GGUF = "gguf"


class ExportDtype(StrEnum):
    """Format of the written weights."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"
    Q8_0 = "q8_0"


_DEFAULTS = {ExportFormat.SAFETENSORS: ExportDtype.BF16, ExportFormat.GGUF: ExportDtype.FP16}
_WRITTEN = {
    ExportFormat.SAFETENSORS: (ExportDtype.BF16, ExportDtype.FP16, ExportDtype.FP32),
    ExportFormat.GGUF: (ExportDtype.FP16, ExportDtype.Q8_0),
}


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExportAsked(_Words):
    """Where a checkpoint goes, and as what."""

    path: str = Field(min_length=1, description="folder to make; over REST relative to the home folder")
    format: ExportFormat = Field(default=ExportFormat.SAFETENSORS, description="safetensors or gguf")
    dtype: ExportDtype | None = Field(
        default=None, description="bf16, fp16 or fp32; for gguf fp16 or q8_0; bf16 and fp16 where null"
    )
    shard_size: Size = Field(default=4 << 30, description="largest safetensors file, for example 2GiB")
    checkpoint: int | None = Field(default=None, ge=0, description="step of the checkpoint; the newest where null")

    @property
    def written_dtype(self) -> ExportDtype:
        """The dtype, decided."""
        return self.dtype or _DEFAULTS[self.format]

    @model_validator(mode="after")
    def _fits(self) -> "ExportAsked":
        possible = _WRITTEN[self.format]
        if self.written_dtype not in possible:
            raise ValueError(f"{self.format} is not written as {self.dtype}; use {' or '.join(possible)}")
        return self


class ExportOrder(_Words):
    """What the process that exports is told."""

    source: str
    target: str
    format: ExportFormat
    dtype: ExportDtype
    shard_bytes: int
    run_id: str
    checkpoint: int
    chat_template: ChatTemplate = ChatTemplate.TOKENIZER
    folders: list[str] | None = Field(
        default=None, description="real paths of the folders that the target may lie in; null: wherever the user may"
    )


class ExportedFile(_Words):
    """One file of an export."""

    name: str
    bytes: int
    sha256: str


class ExportStage(_Words):
    """What is being done now."""

    type: Literal["stage"] = "stage"
    message: str


class ExportRefused(_Words):
    """Nothing was exported; the text says why."""

    type: Literal["refused"] = "refused"
    message: str


class Exported(_Words):
    """An export that is there, whole and read back."""

    type: Literal["exported"] = "exported"
    path: str
    format: ExportFormat
    dtype: ExportDtype
    checkpoint: int
    parameters: int = Field(description="elements of all written tensors")
    bytes: int = Field(description="of all files")
    files: list[ExportedFile]
    compared_tensors: int = Field(description="tensors that were read back and are what was meant")
    loaded: bool = Field(description="whether transformers loaded the folder and computed finite logits with it")
    notes: list[str] = Field(description="what was left out, and why")
    seconds: float
    peak_bytes: int = Field(description="peak resident memory of the process that wrote it")


ExportEvent = Annotated[ExportStage | ExportRefused | Exported, Field(discriminator="type")]
EXPORT_EVENT: TypeAdapter[ExportEvent] = TypeAdapter(ExportEvent)
