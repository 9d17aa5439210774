"""The queues of the devices, and what may be done with a run that waits in one."""

from typing import Any

from fastapi import APIRouter

from horizon_app.api.deps import RunIdPath, Station, Who
from horizon_app.api.schemas import MoveBody
from horizon_app.contracts.problems import Problem
from horizon_app.contracts.run_view import QueueAnswer, Run

router = APIRouter(tags=["queue"])
_REFUSALS: dict[int | str, dict[str, Any]] = {404: {"model": Problem}, 409: {"model": Problem}}


@router.get("/queue")
def show_queue(station: Station) -> QueueAnswer:
    """What is live on each device and what waits for it, in order."""
    return station.queue.overview()


@router.post("/runs/{run_id}/start", status_code=202, responses=_REFUSALS)
def start_run(run_id: RunIdPath, station: Station, who: Who) -> Run:
    """Let a run that is held, or was submitted with `start: false`, start when its turn comes."""
    run = station.queue.start(run_id, who=who)
    station.nudge()
    return run


@router.post("/runs/{run_id}/hold", status_code=202, responses=_REFUSALS)
def hold_run(run_id: RunIdPath, station: Station, who: Who) -> Run:
    """Keep a queued run from starting; it keeps its place."""
    run = station.queue.hold(run_id, who=who)
    station.nudge()
    return run


@router.post("/runs/{run_id}/move", status_code=202, responses={**_REFUSALS, 422: {"model": Problem}})
def move_run(run_id: RunIdPath, body: MoveBody, station: Station, who: Who) -> Run:
    """Give a queued run another place in the queue of its device."""
    run = station.queue.move(run_id, before=body.before, position=body.position, who=who)
    station.nudge()
    return run
