"""Runs that are put away, and runs that go for good."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool

from horizon_app.api.deps import RunIdPath, Station, Who
from horizon_app.contracts.problems import Problem
from horizon_app.contracts.run_view import Freed, Run

_REFUSALS: dict[int | str, dict[str, Any]] = {404: {"model": Problem}, 409: {"model": Problem}}
router = APIRouter(prefix="/runs/{run_id}", tags=["runs"], responses=_REFUSALS)


@router.post("/archive")
def archive_run(run_id: RunIdPath, station: Station, who: Who) -> Run:
    """Put an ended run away: it is listed only where archived runs are asked for."""
    run = station.archive(run_id, who=who)
    station.nudge()
    return run


@router.post("/unarchive")
def unarchive_run(run_id: RunIdPath, station: Station, who: Who) -> Run:
    """Take a run out of the archive."""
    run = station.archive(run_id, archived=False, who=who)
    station.nudge()
    return run


@router.delete("")
async def delete_run(
    run_id: RunIdPath,
    station: Station,
    pinned: Annotated[
        Literal["keep", "delete"], Query(description="keep: a run with a pinned checkpoint is not deleted")
    ] = "keep",
) -> Freed:
    """Remove a run with its checkpoints and all else in its folder."""
    await station.generators.forget(run_id)
    freed = await run_in_threadpool(station.deletion.delete, run_id, pinned_too=pinned == "delete")
    station.tell_gone(run_id)
    return freed
