"""The machine, its models and its data as they are shown."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.run_spec import Init

DataKind = Literal["text", "jsonl", "json", "csv", "parquet"]


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class DeviceUse(_View):
    """The device that trains: the first CUDA card, else the CPU."""

    kind: Literal["cuda", "cpu"]
    name: str
    memory_total: int = Field(description="bytes")
    memory_used: int | None = Field(description="bytes; null where it can't be asked")


class HostUse(_View):
    """Processor and memory of this machine, or of the container that the server runs in."""

    memory_total: int = Field(description="bytes")
    memory_available: int = Field(description="bytes")
    cpu_count: int
    cpu_percent: float = Field(description="use of all processors over the last second or more, 0 to 100")


class DiskUse(_View):
    """The disk of the home folder."""

    path: str
    total: int = Field(description="bytes")
    free: int = Field(description="bytes")


class SystemAnswer(_View):
    """What the machine has and what it uses now."""

    version: str
    home: str
    device: DeviceUse
    host: HostUse
    disk: DiskUse
    active_run: str | None = Field(description="the run that has the device now")


class ModelEntry(_View):
    """One model folder."""

    path: str = Field(description="as to be written in the spec")
    name: str
    architecture: str | None
    parameters: int | None = Field(description="elements of all weights; estimated where there are none yet")
    layers: int | None
    dtype: str | None
    bytes: int = Field(description="size of the weight files")
    has_weights: bool
    trainable: bool = Field(description="whether a run of its own weights can be started")
    starts_from: list[Init] = Field(description="the values of model.init with which a run can be started")
    reason: str = Field(description="why it can't be trained, or only from random weights; empty where it can")


class ModelsAnswer(_View):
    """The models in the allowed folders."""

    folders: list[str] = Field(description="folders that were looked through")
    models: list[ModelEntry]


class DatasetEntry(_View):
    """One data file."""

    path: str = Field(description="as to be written in the spec")
    name: str
    bytes: int
    kind: DataKind = Field(description="by the ending of the name; a preview looks at the content")


class DatasetsAnswer(_View):
    """The data files in the allowed folders."""

    datasets: list[DatasetEntry]


class Health(_View):
    """That the server lives."""

    status: Literal["ok"] = "ok"
    version: str
    proof: str | None = Field(
        default=None,
        description="where a nonce was given: shows that this server knows its access token; null: it asks for none",
    )


class ExampleAnswer(_View):
    """The example: a spec that can be submitted as it is."""

    spec: dict[str, object] = Field(description="paths are relative to the home folder")
    folder: str
