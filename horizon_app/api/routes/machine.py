"""The machine, its models and data, the spec's schema, liveness, the example."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query

import horizon_app
from horizon_app.api.deps import Door, Past, Station
from horizon_app.api.schemas import PreviewQuery
from horizon_app.contracts.checks import MachineReport
from horizon_app.contracts.data_view import DataPreview
from horizon_app.contracts.machine_view import DatasetsAnswer, ExampleAnswer, Health, ModelsAnswer, SystemAnswer
from horizon_app.contracts.problems import Problem
from horizon_app.contracts.run_spec import spec_schema
from horizon_app.contracts.server_proof import NONCE_PATTERN
from horizon_app.control.catalog import list_datasets, list_models
from horizon_app.control.doctor.report import examine
from horizon_app.control.example import write_example

router = APIRouter(tags=["machine"])
Nonce = Annotated[str | None, Query(pattern=NONCE_PATTERN, description="32 random hexadecimal digits")]


@router.get("/healthz")
async def healthz(door: Door, nonce: Nonce = None) -> Health:  # on the loop: it is told however busy the threads are
    """That the server lives; to a client that names a number used once, also that it is the one with the token."""
    proof = None if nonce is None else await asyncio.to_thread(door.proof, nonce)
    return Health(version=horizon_app.__version__, proof=proof)


@router.get("/system")
def system(station: Station, past: Past) -> SystemAnswer:
    """What the machine has and what it uses now."""
    live = past.live()
    return station.machine.system(station.settings, live[0].id if live else None)


@router.get("/system/doctor")
def doctor(station: Station) -> MachineReport:
    """Whether this machine is fit for training: what `horizon doctor` tells. Takes seconds."""
    return examine(station.settings)


@router.get("/models")
def models(station: Station) -> ModelsAnswer:
    """The models in the home folder and the allowed folders."""
    return list_models(station.settings)


@router.get("/datasets")
def datasets(station: Station) -> DatasetsAnswer:
    """The data files in the home folder and the allowed folders."""
    return list_datasets(station.settings)


@router.get("/datasets/preview", responses={422: {"model": Problem}, 503: {"model": Problem}})
def dataset_preview(station: Station, asked: Annotated[PreviewQuery, Query()]) -> DataPreview:
    """The first samples of some data as a model would see them, and what is wrong with the rest."""
    options = asked.model_dump(exclude={"path", "tokenizer", "samples"}, exclude_none=True)
    data = {"path": asked.path, **options}
    return station.looks.preview(data, asked.tokenizer, most_samples=asked.samples)


@router.get("/spec/schema")
def schema() -> dict[str, Any]:
    """JSON schema of the run spec."""
    return spec_schema()


@router.post("/examples", status_code=201, responses={500: {"model": Problem}})
def example(station: Station) -> ExampleAnswer:
    """Write the starter model, data and spec where they are not there yet; starts nothing."""
    return write_example(station.settings)
