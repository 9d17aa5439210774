"""Completes the OpenAPI schema: what every route may answer, who may ask, and an example of every body and answer."""

from typing import Any

from fastapi import FastAPI

from horizon_app.api.access import asks_for_token
from horizon_app.api.examples import example

Schema = dict[str, Any]
_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_TOKEN = "token"  # noqa: S105 - the name of a security scheme

DESCRIPTION = """Train models larger than the device, and watch every block of them move.

Errors are problem documents (RFC 9457). Times are UTC, ISO 8601 with Z. Numbers that are not finite are null, with a
flag beside them. Answers of GET carry an ETag: with it as If-None-Match, an answer that has not changed is 304 without
a body. A server that others can reach wants `Authorization: Bearer TOKEN`.

WebSockets: `/api/v1/runs/RUN_ID/stream?after=SEQ` (one run) and `/api/v1/stream` (all runs).
"""
TAGS = {
    "runs": "Submit, list, show, change, stop, resume and delete runs; their checkpoints.",
    "queue": "Which run is next on a device, and what waits.",
    "knobs": "What can be changed while a run runs.",
    "checks": "The checklist of a run: what is wrong with it, and doing something about it.",
    "records": "What a run has recorded: metrics, residency, events, log.",
    "models": "What can be done with the model that a run has saved.",
    "machine": "The machine, its models and data, the spec's schema, liveness.",
}

_PROBLEMS: dict[str, tuple[str, str, str, str]] = {
    "400": ("Address or body can't be read", "bad-request", "Bad Request", "There was an error parsing the body"),
    "401": (
        "The server wants a token, and this is none", "token-needed", "A token is needed",
        "send the header Authorization: Bearer TOKEN; the server printed the token when it was made",
    ),
    "403": (
        "The request names another host, or comes from a page of another site", "origin-refused",
        "The request was refused", "the request comes from a page of another site",
    ),
    "404": ("There is nothing of this name", "run-not-found", "No such run", "there is no run 'x'"),
    "408": ("The client has left", "request-timeout", "Request Timeout", "the client has left"),
    "409": (
        "The run's state does not allow it", "run-not-live", "The run is not live",
        "run 20260131-120000-a1b2c3 is finished: there is nothing to stop",
    ),
    "412": (
        "It has changed since", "version-changed", "It has changed meanwhile", "it is at version 4; 3 was sent"
    ),
    "413": ("The body is too large", "content-too-large", "Content Too Large", ""),
    "414": (
        "Path or query are too long", "address-too-long", "The request was refused",
        "path and query may have 8192 bytes each",
    ),
    "415": (
        "The body is not JSON", "not-json", "The request was refused",
        "a body must be JSON: send the header Content-Type: application/json",
    ),
    "422": (
        "A value makes no sense; `errors` names the fields", "spec-refused", "The spec can't run",
        "training.learning_rate: should be greater than 0",
    ),
    "428": ("If-Match is missing", "version-needed", "The version is needed", "send If-Match with the version you saw"),
    "429": ("Too many wrong tokens", "too-many-tries", "Too many tries", "10 different wrong tokens came; wait 12 s"),
    "500": (
        "The server made a mistake", "internal-error", "The server made a mistake",
        "RuntimeError; the server's log has the trace",
    ),
    "503": (
        "It can't be done now", "database-busy", "The database is held by another process",
        "another process holds the database; try again when it has finished",
    ),
}  # fmt: skip
"""Status -> when, and the name, title and detail of its example."""

_TEXTS = {
    "text/html": "<!doctype html><title>my-run</title>",
    "text/csv": "step,train/loss\n1,4.1\n",
    "text/event-stream": 'event: text\ndata: {"type":"text","text":"there was"}\n\n',
}
"""Examples of what is no JSON."""


def install_openapi(app: FastAPI) -> None:
    """Serve the completed schema in place of FastAPI's own."""
    plain = app.openapi

    def complete() -> Schema:
        if app.openapi_schema is None:
            app.openapi_schema = completed(plain())
        return app.openapi_schema

    app.openapi = complete  # pyright: ignore[reportAttributeAccessIssue] - how FastAPI's documentation has it


def completed(schema: Schema) -> Schema:
    """The schema with all that holds for every route."""
    components: Schema = schema["components"]
    for leftover in ("HTTPValidationError", "ValidationError"):  # FastAPI's own words for a 422, which we don't send
        components["schemas"].pop(leftover, None)
    components["securitySchemes"] = {_TOKEN: {"type": "http", "scheme": "bearer"}}
    components["responses"] = {status: _problem(status) for status in _PROBLEMS}
    schema["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            _complete(operation, method, path, components["schemas"])
    return schema


def _complete(operation: Schema, method: str, path: str, components: Schema) -> None:
    responses: Schema = operation["responses"]
    parameters: list[Schema] = operation.get("parameters", [])
    body: Schema | None = operation.get("requestBody")
    # An empty requirement beside it: a server that only this machine reaches asks for nothing.
    operation["security"] = [{}, {_TOKEN: []}] if asks_for_token(path) else []
    for status in _everywhere(path, has_body=body is not None, has_parameters=bool(parameters)):
        responses.setdefault(status, {})
    for status in _PROBLEMS.keys() & responses.keys():
        responses[status] = {"$ref": f"#/components/responses/{status}"}
    if method == "get" and "application/json" in responses["200"].get("content", {}):
        etag = {"description": "of this very answer", "schema": {"type": "string"}}
        responses["200"].setdefault("headers", {})["ETag"] = etag
        responses["304"] = {"description": "It is as If-None-Match says"}
    contents = [response.get("content", {}) for response in responses.values()] + ([body["content"]] if body else [])
    for kind, media in [pair for content in contents for pair in content.items()]:
        if "example" not in media and "examples" not in media:
            media["example"] = _TEXTS.get(kind) or example(media["schema"], components)
    for parameter in parameters:
        if "example" not in parameter and parameter["required"]:
            parameter["example"] = example(parameter["schema"], components, parameter["name"])
    operation["responses"] = dict(sorted(responses.items()))


def _everywhere(path: str, *, has_body: bool, has_parameters: bool) -> list[str]:
    """The problems that a route may answer with because of what it is."""
    found = ["400", "403", "414", "500", "503"]
    found += ["401", "429"] if asks_for_token(path) else []
    found += ["404"] if "{" in path else []
    found += ["413", "415", "422"] if has_body else []
    found += ["422"] if has_parameters else []
    return found


def _problem(status: str) -> Schema:
    when, name, title, detail = _PROBLEMS[status]
    errors = [{"field": "training.learning_rate", "message": "should be greater than 0", "fix": ""}]
    shown = {
        "type": f"horizon:{name}", "title": title, "status": int(status), "detail": detail,
        "errors": errors if status == "422" else [],
    }  # fmt: skip
    response: Schema = {
        "description": when,
        "content": {"application/problem+json": {"schema": _PROBLEM, "example": shown}},
    }
    return response if status != "429" else {**response, "headers": {"Retry-After": {"schema": {"type": "integer"}}}}
