"""One table from what went wrong to an RFC 9457 problem; every error on the wire comes from here."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from horizon_app.contracts.problems import FieldProblem, Problem, SpecRefused
from horizon_app.control.errors import (
    BadQuery,
    CheckNotFound,
    CheckpointNotFound,
    CheckpointPinned,
    ControlError,
    DataRefused,
    ExampleFailed,
    ExportBusy,
    ExportFailed,
    GeneratorBusy,
    GeneratorFailed,
    IllegalTransition,
    KeyReused,
    KnobError,
    KnobsChangedSince,
    KnobsRefused,
    NeedsRestart,
    NothingRecorded,
    NothingToApply,
    NothingToResume,
    NothingToUndo,
    NotQueued,
    PreviewFailed,
    RunIsLive,
    RunNotFound,
    RunNotLive,
    TextNotWritten,
    WorkerStillThere,
)
from horizon_app.store.errors import DatabaseBusy, DatabaseDamaged, DatabaseUnavailable

_log = logging.getLogger(__name__)

_TABLE: dict[type[Exception], tuple[int, str, str]] = {
    SpecRefused: (422, "spec-refused", "The spec can't run"),
    RequestValidationError: (422, "request-invalid", "The request is not of the right shape"),
    KnobsRefused: (422, "knobs-refused", "The knobs can't be changed to this"),
    NeedsRestart: (409, "needs-restart", "This can't change while the run runs"),
    KnobsChangedSince: (412, "knobs-changed", "The knobs were changed by somebody else"),
    NothingToUndo: (409, "nothing-to-undo", "There is no change to take back"),
    BadQuery: (422, "query-invalid", "The question makes no sense"),
    RunNotFound: (404, "run-not-found", "No such run"),
    NothingRecorded: (404, "nothing-recorded", "Nothing recorded yet"),
    RunIsLive: (409, "run-is-live", "The run is live"),
    RunNotLive: (409, "run-not-live", "The run is not live"),
    KeyReused: (422, "key-reused", "The key belongs to another run"),
    CheckpointPinned: (409, "checkpoint-pinned", "A checkpoint is pinned"),
    NotQueued: (409, "run-not-queued", "The run waits in no queue"),
    CheckNotFound: (404, "check-not-found", "No such check"),
    NothingToApply: (409, "nothing-to-apply", "There is no fix to apply"),
    NothingToResume: (409, "nothing-to-resume", "There is nothing left to do"),
    WorkerStillThere: (409, "worker-still-there", "The run's worker has not gone yet"),
    CheckpointNotFound: (404, "checkpoint-not-found", "No such checkpoint"),
    IllegalTransition: (409, "illegal-transition", "The run's state does not allow it"),
    TextNotWritten: (422, "text-not-written", "The model can't answer this"),
    ExportFailed: (422, "export-failed", "The model could not be exported"),
    ExportBusy: (409, "export-busy", "Another model is being written"),
    GeneratorBusy: (409, "generator-busy", "The model is answering"),
    GeneratorFailed: (503, "generator-failed", "The model could not be asked"),
    DataRefused: (422, "data-refused", "The data can't be used"),
    PreviewFailed: (503, "preview-failed", "The data could not be looked at"),
    ExampleFailed: (500, "example-failed", "The example could not be written"),
    DatabaseBusy: (503, "database-busy", "The database is held by another process"),
    DatabaseDamaged: (503, "database-damaged", "The database is damaged"),
    DatabaseUnavailable: (503, "database-unavailable", "The database can't be used"),
    ControlError: (500, "control-error", "It did not work"),
}
"""Exception -> status, stable name, title. The nearest class in its ancestry counts."""


def problem_response(
    status: int,
    name: str,
    title: str,
    detail: str,
    errors: list[FieldProblem] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document as an answer."""
    problem = Problem(type=f"horizon:{name}", title=title, status=status, detail=detail, errors=errors or [])
    return JSONResponse(
        problem.model_dump(mode="json", exclude_none=True),
        status,
        media_type="application/problem+json",
        headers=headers,
    )


def install_error_handlers(app: FastAPI) -> None:
    """Answer every error with a problem."""
    for kind in _TABLE:
        app.add_exception_handler(kind, _known)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unknown)


async def _known(_request: Request, error: Exception) -> Response:
    status, name, title = next(_TABLE[kind] for kind in type(error).__mro__ if kind in _TABLE)
    if isinstance(error, RequestValidationError):
        errors = [_field_problem(dict(one)) for one in error.errors()]
        return problem_response(status, name, title, "; ".join(f"{e.field}: {e.message}" for e in errors), errors)
    if isinstance(error, SpecRefused | DataRefused | CheckpointPinned | KnobError):
        return problem_response(status, name, title, str(error), error.errors)
    if isinstance(error, BadQuery):
        wrong = FieldProblem(field=error.field, message=error.message, fix=error.fix)
        return problem_response(status, name, title, str(error), [wrong])
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("%s: %s", title, error)
    return problem_response(status, name, title, str(error))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"allow": ", ".join(_methods(request))}
    phrase = HTTPStatus(error.status_code).phrase
    name = phrase.lower().replace(" ", "-")
    detail = "" if error.detail == phrase else str(error.detail)
    return problem_response(error.status_code, name, phrase, detail, headers=headers)


def _methods(request: Request) -> list[str]:
    """What may be done at an address: the router tells the methods of the first route only that has it."""
    paths: dict[str, Any] = request.app.openapi()["paths"]
    exact = paths.get(request.scope["path"])
    fitting = [methods for path, methods in paths.items() if compile_path(path)[0].match(request.scope["path"])]
    matching = fitting if exact is None else [exact]
    return sorted({method.upper() for methods in matching for method in methods}) or ["GET"]


async def _unknown(_request: Request, error: Exception) -> Response:
    detail = f"{type(error).__name__}; the server's log has the trace"
    return problem_response(500, "internal-error", "The server made a mistake", detail)


def _field_problem(error: dict[str, Any]) -> FieldProblem:
    field = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path", "header"))
    message = str(error["msg"])
    if error["type"] == "json_invalid":
        return FieldProblem(field="", message=f"the body is not JSON: {error.get('ctx', {}).get('error', '')}")
    return FieldProblem(field=field, message=f"{message[:1].lower()}{message[1:]}")
