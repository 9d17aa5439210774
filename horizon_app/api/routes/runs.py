"""Runs: submit, clone, list, show, change, stop, resume; and their checkpoints."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Response

from horizon_app.api.deps import MOST_NUMBER, CommasToo, Past, RunIdPath, Station, Who
from horizon_app.api.schemas import CloneBody, EditBody, NewRunBody, ResumeBody, StopBody
from horizon_app.contracts.problems import Problem
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import CheckpointsAnswer, Run, RunDetail, RunPage

router = APIRouter(prefix="/runs", tags=["runs"])
StepPath = Annotated[int, Path(ge=0, le=MOST_NUMBER, description="optimizer step of a checkpoint")]
KeyHeader = Annotated[str | None, Header(max_length=255, description="makes a repeated call harmless")]
_NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}
_CONFLICT: dict[int | str, dict[str, Any]] = {409: {"model": Problem}}


@router.get("")
def list_runs(
    past: Past,
    state: Annotated[list[RunState] | None, CommasToo, Query(description="only these states")] = None,
    tag: Annotated[str | None, Query(description="only runs with this tag")] = None,
    q: Annotated[str | None, Query(description="a filter: words, field:word, comparisons, and, or, not")] = None,
    archived: Annotated[
        Literal["false", "true", "all"], Query(description="true: only what is archived; all: that too")
    ] = "false",
    sort: Annotated[str, Query(description="a field or a metric, with - for falling order")] = "-created_at",
    limit: Annotated[int, Query(ge=1, le=500, description="most runs of a page")] = 50,
    cursor: Annotated[str | None, Query(description="next_cursor of the page before")] = None,
) -> RunPage:
    """The history, a page at a time."""
    return past.runs(states=state or (), tag=tag, q=q, archived=archived, sort=sort, limit=limit, cursor=cursor)


@router.post("", status_code=201, responses={422: {"model": Problem}})
def create_run(
    body: NewRunBody,
    station: Station,
    who: Who,
    response: Response,
    idempotency_key: KeyHeader = None,
) -> RunDetail:
    """Check a spec and queue it as a run."""
    run = station.submit(body.spec, start=body.start, key=idempotency_key, who=who)
    station.nudge()
    response.headers["Location"] = f"/api/v1/runs/{run.id}"
    return run


@router.post("/{run_id}/clone", status_code=201, responses={**_NOT_FOUND, 422: {"model": Problem}})
def clone_run(
    run_id: RunIdPath,
    station: Station,
    who: Who,
    response: Response,
    body: CloneBody | None = None,
    idempotency_key: KeyHeader = None,
) -> RunDetail:
    """Submit the spec of a run again, as a new run, with changes."""
    asked = body or CloneBody()
    run = station.clone(run_id, asked.set, name=asked.name, start=asked.start, key=idempotency_key, who=who)
    station.nudge()
    response.headers["Location"] = f"/api/v1/runs/{run.id}"
    return run


@router.get("/{run_id}", responses=_NOT_FOUND)
def show_run(run_id: RunIdPath, past: Past) -> RunDetail:
    """One run with all that is known of it."""
    return past.run(run_id)


@router.patch("/{run_id}", responses=_NOT_FOUND)
def edit_run(run_id: RunIdPath, body: EditBody, station: Station) -> Run:
    """Change name, tags or notes."""
    run = station.edit(run_id, name=body.name, tags=body.tags, notes=body.notes)
    station.nudge()
    return run


@router.post("/{run_id}/resume", status_code=202, responses={**_NOT_FOUND, **_CONFLICT, 422: {"model": Problem}})
def resume_run(run_id: RunIdPath, station: Station, who: Who, body: ResumeBody | None = None) -> Run:
    """Queue an ended run again: it goes on from its newest whole checkpoint."""
    run = station.resume(run_id, body.set if body is not None else {}, who=who)
    station.nudge()
    return run


@router.post("/{run_id}/checkpoint", status_code=202, responses={**_NOT_FOUND, **_CONFLICT})
def save_checkpoint(run_id: RunIdPath, station: Station) -> Run:
    """Ask a live run for a checkpoint after its next optimizer step."""
    return station.save_checkpoint(run_id)


@router.get("/{run_id}/checkpoints", responses=_NOT_FOUND)
def list_checkpoints(run_id: RunIdPath, past: Past) -> CheckpointsAnswer:
    """The checkpoints of a run: which are whole, the best, pinned, or broken and why."""
    return past.checkpoints(run_id)


@router.post("/{run_id}/checkpoints/{step}/pin", responses=_NOT_FOUND)
def pin_checkpoint(run_id: RunIdPath, step: StepPath, station: Station) -> CheckpointsAnswer:
    """Keep a checkpoint from being rotated away."""
    return station.pin(run_id, step, pinned=True)


@router.delete("/{run_id}/checkpoints/{step}/pin", responses=_NOT_FOUND)
def unpin_checkpoint(run_id: RunIdPath, step: StepPath, station: Station) -> CheckpointsAnswer:
    """Let a checkpoint be rotated away again."""
    return station.pin(run_id, step, pinned=False)


@router.post("/{run_id}/stop", status_code=202, responses={**_NOT_FOUND, **_CONFLICT})
def stop_run(run_id: RunIdPath, station: Station, who: Who, body: StopBody | None = None) -> Run:
    """Ask a run to stop at the next optimizer step."""
    run = station.stop(run_id, save=body.save if body is not None else True, who=who)
    station.nudge()
    return run
