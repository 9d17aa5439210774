"""Knobs of a live run: what is in force, other values, and taking a change back."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Response
from starlette.concurrency import run_in_threadpool

from horizon_app.api.deps import RunIdPath, Station, Who
from horizon_app.api.schemas import UndoBody, Values
from horizon_app.contracts.knobs import ChangedKnobs, KnobsAnswer, KnobStatus
from horizon_app.contracts.problems import Problem
from horizon_app.control.knobs import PATIENCE_S, Asked, is_answered
from horizon_app.control.workstation import Workstation

router = APIRouter(prefix="/runs/{run_id}/knobs", tags=["knobs"])
_REFUSALS: dict[int | str, dict[str, Any]] = {
    202: {"model": ChangedKnobs, "description": "Asked for; the worker has not come to it yet"},
    404: {"model": Problem}, 409: {"model": Problem}, 412: {"model": Problem}, 422: {"model": Problem},
}  # fmt: skip
_WISHES = {"prefetch_window": 5, "policy": "lru"}
IfMatch = Annotated[
    str | None, Header(max_length=200, description="the knobs_version that was seen, in quotes; 412 where it is not it")
]
Patience = Annotated[
    float, Query(ge=0.0, le=60.0, description="seconds to wait for the worker; 202 where it has not answered by then")
]


@router.get("", responses={404: {"model": Problem}})
def show_knobs(run_id: RunIdPath, station: Station, response: Response) -> KnobsAnswer:
    """Every knob with its value in force and what it may be, and what was changed in this run."""
    answer = station.knobs.show(run_id)
    answered = sum(change.status is not KnobStatus.ASKED for change in answer.changes)
    response.headers["ETag"] = _tag(answer.knobs_version, answered)
    return answer


@router.patch("", responses=_REFUSALS)
async def set_knobs(
    run_id: RunIdPath,
    body: Annotated[
        Values,
        Body(min_length=1, description="new values by knob", openapi_examples={"two": {"value": _WISHES}}),
    ],
    station: Station,
    who: Who,
    response: Response,
    if_match: IfMatch = None,
    patience_s: Patience = PATIENCE_S,
) -> ChangedKnobs:
    """Change knobs of a live run; answers with old, new and the optimizer step from which each holds."""
    version = _version(if_match)
    asked = await run_in_threadpool(station.knobs.ask, run_id, body, who=who, version=version)
    return await _answer(station, asked, patience_s, response)


@router.post("/undo", responses=_REFUSALS)
async def undo_knobs(
    run_id: RunIdPath,
    station: Station,
    who: Who,
    response: Response,
    body: UndoBody | None = None,
    if_match: IfMatch = None,
    patience_s: Patience = PATIENCE_S,
) -> ChangedKnobs:
    """Take a change back: the newest that was not taken back yet, or the one that is named. It is a change as well."""
    number, version = body.number if body is not None else None, _version(if_match)
    asked = await run_in_threadpool(station.knobs.undo, run_id, number, who=who, version=version)
    return await _answer(station, asked, patience_s, response)


async def _answer(station: Workstation, asked: Asked, patience_s: float, response: Response) -> ChangedKnobs:
    found = await station.knobs.settle(asked, patience_s)
    response.status_code = 200 if is_answered(found) else 202
    return found


def _tag(version: int, answered: int) -> str:
    """An answer is another representation of the same version."""
    return f'"{version}.{answered}"'


def _version(if_match: str | None) -> int | None:
    """The version that an If-Match names: 5 of "5" and of "5.4"; -1, which no run has, of anything else."""
    if if_match is None or if_match.strip() == "*":
        return None
    number = if_match.strip().removeprefix("W/").strip('"').partition(".")[0]
    return int(number) if number.isdecimal() and number.isascii() else -1
