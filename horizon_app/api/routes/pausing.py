"""Runs that hold with everything in memory."""

from fastapi import APIRouter

from horizon_app.api.deps import RunIdPath, Station, Who
from horizon_app.api.schemas import PauseBody
from horizon_app.contracts.problems import Problem
from horizon_app.contracts.run_view import Run

router = APIRouter(prefix="/runs", tags=["runs"])


@router.post("/{run_id}/pause", status_code=202, responses={404: {"model": Problem}, 409: {"model": Problem}})
def pause_run(run_id: RunIdPath, station: Station, who: Who, body: PauseBody | None = None) -> Run:
    """Ask a run to hold after the optimizer step that is being done, with everything in memory."""
    return station.pausing.pause(run_id, save=body is not None and body.save, who=who)
