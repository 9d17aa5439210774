"""The checklist of a run, and doing what it proposes."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from starlette.concurrency import run_in_threadpool

from horizon_app.api.deps import Past, RunIdPath, Station, Who
from horizon_app.api.routes.knobs import Patience
from horizon_app.api.routes.runs import KeyHeader
from horizon_app.api.schemas import ApplyBody
from horizon_app.contracts.problems import Problem
from horizon_app.contracts.run_checks import AppliedFix, RunChecks
from horizon_app.control.knobs import PATIENCE_S, is_answered

router = APIRouter(prefix="/runs/{run_id}/checks", tags=["checks"])
CheckPath = Annotated[str, Path(max_length=100, description="id of a check")]
_OUTCOMES: dict[int | str, dict[str, Any]] = {
    201: {"model": AppliedFix, "description": "A new run is there, held unless it was to start"},
    202: {"model": AppliedFix, "description": "Knobs are asked for; the worker has not come to it yet"},
    404: {"model": Problem}, 409: {"model": Problem}, 422: {"model": Problem},
}  # fmt: skip


@router.get("", responses={404: {"model": Problem}})
def show_checks(run_id: RunIdPath, past: Past) -> RunChecks:
    """Whether the device waits, memory runs out, the loss runs away or swings: each with evidence and what to do."""
    return past.checks(run_id)


@router.post("/{check}/apply", responses=_OUTCOMES)
async def apply_fix(
    run_id: RunIdPath,
    check: CheckPath,
    station: Station,
    who: Who,
    response: Response,
    body: ApplyBody | None = None,
    idempotency_key: KeyHeader = None,
    patience_s: Patience = PATIENCE_S,
) -> AppliedFix:
    """Do what a check proposes: change knobs of the live run, or clone it with another spec."""
    start = body.start if body is not None else False
    done = await run_in_threadpool(station.fixes.apply, run_id, check, start=start, key=idempotency_key, who=who)
    station.nudge()
    if done.asked is None:
        assert done.fix.run is not None, "a fix changes knobs or makes a run"
        response.status_code = 201
        response.headers["Location"] = f"/api/v1/runs/{done.fix.run.id}"
        return done.fix
    knobs = await station.knobs.settle(done.asked, patience_s)
    response.status_code = 200 if is_answered(knobs) else 202
    return done.fix.model_copy(update={"knobs": knobs})
