"""What can be done with the model that a run has saved: ask it, write it for others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from horizon_app.api.deps import RunIdPath, Station
from horizon_app.api.schemas import GenerateBody
from horizon_app.contracts.export import ExportAsked, Exported
from horizon_app.contracts.generation import GeneratorEvent, TextAdded, TextDone, TextRefused
from horizon_app.contracts.problems import Problem
from horizon_app.control.errors import GeneratorFailed, TextNotWritten
from horizon_app.control.exports import export_model
from horizon_app.control.paths import rules_for_clients
from horizon_app.control.run_models import saved_model

router = APIRouter(prefix="/runs/{run_id}", tags=["models"], responses={404: {"model": Problem}})
_PRESENCE_S = 0.5
_STREAMED: dict[str, Any] = {
    "description": "The answer; with `stream`, server-sent events `text` (TextAdded) and at the end `done` (TextDone)",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


@router.post(
    "/generate",
    response_model=TextDone,
    responses={200: _STREAMED, 409: {"model": Problem}, 422: {"model": Problem}, 503: {"model": Problem}},
)
async def generate(run_id: RunIdPath, body: GenerateBody, request: Request, station: Station) -> Response:
    """Let a checkpoint answer; a client that leaves cancels it."""
    run = await run_in_threadpool(station.run, run_id)
    events = station.generators.answer(saved_model(run, station.settings.runs_dir, body.checkpoint), body)
    if not body.stream:
        done = await _while_there(request, _last(events))
        return Response(done.model_dump_json(), media_type="application/json")
    first = _answered(await _while_there(request, anext(events)))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_frames(first, events), media_type="text/event-stream", headers=headers)


@router.post("/export", status_code=201, responses={409: {"model": Problem}, 422: {"model": Problem}})
def export(run_id: RunIdPath, body: ExportAsked, station: Station) -> Exported:
    """Write a checkpoint as a model folder, read it back and load it; answers when all that is done."""
    model = saved_model(station.run(run_id), station.settings.runs_dir, body.checkpoint)
    return export_model(model, body, rules_for_clients(station.settings))


async def _last(events: AsyncGenerator[GeneratorEvent]) -> TextDone:
    async with aclosing(events):
        async for event in events:
            answer = _answered(event)
            if isinstance(answer, TextDone):
                return answer
    raise GeneratorFailed("it ended without an answer")


async def _frames(first: GeneratorEvent, events: AsyncGenerator[GeneratorEvent]) -> AsyncGenerator[str]:
    async with aclosing(events):
        yield _frame(first)
        async for event in events:
            yield _frame(event)


def _frame(event: GeneratorEvent) -> str:
    return f"event: {event.type}\ndata: {event.model_dump_json()}\n\n"


def _answered(event: GeneratorEvent) -> TextAdded | TextDone:
    if isinstance(event, TextRefused):
        raise TextNotWritten(event.message)
    if not isinstance(event, TextAdded | TextDone):
        raise GeneratorFailed(f"it said {event.type} in place of an answer")
    return event


async def _while_there(request: Request, working: Any) -> Any:
    """The result of `working`, which is cancelled when the client leaves."""
    task = asyncio.ensure_future(working)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_PRESENCE_S)
            if not task.done() and await request.is_disconnected():
                raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "the client has left")
        return await task
    finally:
        task.cancel()
