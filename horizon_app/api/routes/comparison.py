"""Runs side by side, and histories for others."""

import re
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse, StreamingResponse

from horizon_app.api.deps import CommasToo, RunIdPath, Station
from horizon_app.contracts.comparison import Axis, Comparison
from horizon_app.contracts.problems import Problem
from horizon_app.control.comparison import FEWEST_RUNS, MOST_RUNS
from horizon_app.control.history_export import ExportFormat, HistoryFile

router = APIRouter(prefix="/runs", tags=["records"], responses={404: {"model": Problem}})
_TEXT = {"type": "string"}
_HTML = {"text/html": {"schema": _TEXT, "example": "<!doctype html>"}}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file, as an attachment named after the run",
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": {"metrics": {}}},
            "text/csv": {"schema": _TEXT, "example": "step,train/loss\r\n1,4.1\r\n"},
            **_HTML,
        },
    }
}
_REPORT: dict[int | str, dict[str, Any]] = {200: {"content": _HTML}}


@router.get("/compare", response_model=Comparison, responses={422: {"model": Problem}, **_REPORT})
def compare_runs(
    station: Station,
    ids: Annotated[
        list[str], CommasToo, Query(description=f"{FEWEST_RUNS} to {MOST_RUNS} run ids, with commas between")
    ],
    keys: Annotated[
        list[str] | None, CommasToo, Query(description="metric keys with commas between; all where left out")
    ] = None,
    max_points: Annotated[int, Query(ge=3, le=10_000, description="most points of each series, about")] = 500,
    x: Annotated[Axis, Query(description="what the curves are drawn over")] = Axis.STEP,
    form: Annotated[
        Literal["json", "html"], Query(alias="format", description="html: one self-contained file")
    ] = "json",
) -> Any:
    """Curves of several runs over one axis, where their specs differ, and how each has done."""
    comparison = station.comparisons.compare(ids, keys, max_points=max_points, axis=x)
    if form == "json":
        return comparison
    from horizon_app.control.reports.comparison_report import comparison_report  # the server starts without templates

    headers = {"Content-Disposition": content_disposition("comparison.html"), "Cache-Control": "no-store"}
    return HTMLResponse(comparison_report(comparison), headers=headers)


@router.api_route("/compare", methods=["PATCH", "DELETE"], include_in_schema=False)
def refuse_other_methods() -> None:
    """Nothing but GET: without this, the routes of one run would look for a run of that name."""
    raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET"})


@router.get("/{run_id}/export", response_class=StreamingResponse, responses=_FILE)
def export_history(
    run_id: RunIdPath,
    station: Station,
    form: Annotated[ExportFormat, Query(alias="format", description="kind of file")] = ExportFormat.JSON,
) -> StreamingResponse:
    """Everything of a run: `json` with every point, `csv` with a row per optimizer step, `html` as a report."""
    return _attachment(station.exports.export(run_id, form))


def _attachment(file: HistoryFile) -> StreamingResponse:
    headers = {"Content-Disposition": content_disposition(file.name), "Cache-Control": "no-store"}
    return StreamingResponse(file.parts, media_type=file.media_type, headers=headers)


def content_disposition(name: str) -> str:
    """The header for a file of this name: in ASCII for old clients, whole for the others (RFC 6266, RFC 8187)."""
    stem, dot, ending = name.rpartition(".")
    whole = "".join(" " if char < " " or char in '/\\:*?"<>|\x7f' else char for char in stem).strip(" .")[:120] or "run"
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", whole).strip("-.") or "run"
    encoded = quote(f"{whole}{dot}{ending}", safe="", errors="replace")
    return f"attachment; filename=\"{plain}{dot}{ending}\"; filename*=UTF-8''{encoded}"
