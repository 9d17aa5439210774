"""What a run has recorded: metrics, residency, events, log."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from horizon_app.api.deps import MOST_NUMBER, CommasToo, Past, RunIdPath
from horizon_app.api.schemas import EventsAnswer
from horizon_app.contracts.problems import Problem
from horizon_app.contracts.run_view import LogAnswer, ResidencyAnswer, SeriesAnswer
from horizon_app.control.history import TIMELINE_TYPES

router = APIRouter(prefix="/runs/{run_id}", tags=["records"], responses={404: {"model": Problem}})
Type = Literal["state", "metrics", "log", "event", "checkpoint", "sample", "knobs", "check"]


@router.get("/metrics")
def run_metrics(
    run_id: RunIdPath,
    past: Past,
    keys: Annotated[str | None, Query(description="metric keys with commas between; all where left out")] = None,
    first: Annotated[int | None, Query(alias="from", ge=0, le=MOST_NUMBER, description="first optimizer step")] = None,
    last: Annotated[int | None, Query(alias="to", ge=0, le=MOST_NUMBER, description="last optimizer step")] = None,
    max_points: Annotated[int, Query(ge=3, le=100_000, description="most points of a series")] = 1000,
    superseded: Annotated[bool, Query(description="also what was measured of steps that were done again")] = False,
) -> SeriesAnswer:
    """Metrics over optimizer steps, thinned to minimum, maximum and last of each bucket."""
    wanted = None if keys is None else [key for key in keys.split(",") if key]
    return past.series(run_id, wanted, first=first, last=last, max_points=max_points, superseded=superseded)


@router.get("/residency")
def run_residency(
    run_id: RunIdPath,
    past: Past,
    step: Annotated[
        int | None, Query(ge=0, le=MOST_NUMBER, description="optimizer step; the newest moment where left out")
    ] = None,
) -> ResidencyAnswer:
    """The residency map at the end of a step."""
    return past.residency(run_id, step)


@router.get("/events")
def run_events(
    run_id: RunIdPath,
    past: Past,
    after: Annotated[int, Query(ge=0, le=MOST_NUMBER, description="events behind this place")] = 0,
    limit: Annotated[int, Query(ge=1, le=5000, description="most events")] = 500,
    types: Annotated[
        list[Type] | None, CommasToo, Query(description="everything but metrics and log where left out")
    ] = None,
) -> EventsAnswer:
    """What happened, in order."""
    events, last_seq = past.events(run_id, after=after, limit=limit, types=types or TIMELINE_TYPES)
    return EventsAnswer(events=events, last_seq=last_seq)


@router.get("/logs")
def run_logs(
    run_id: RunIdPath,
    past: Past,
    after: Annotated[
        int | None, Query(ge=0, le=MOST_NUMBER, description="lines behind this place; the newest where left out")
    ] = None,
    before: Annotated[int | None, Query(ge=0, le=MOST_NUMBER, description="lines before this place")] = None,
    q: Annotated[str | None, Query(description="text in the line")] = None,
    level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, Query(description="at least this level")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=5000, description="most lines")] = 500,
) -> LogAnswer:
    """Log lines of a run."""
    return past.logs(run_id, after=after, before=before, text=q, level=level, limit=limit)
