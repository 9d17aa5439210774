"""The server as an ASGI app. Importing this reaches neither torch nor transformers."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware

import horizon_app
from horizon_app.api import stream
from horizon_app.api.access import TokenGate
from horizon_app.api.caching import Etags
from horizon_app.api.docs import install_docs
from horizon_app.api.errors import install_error_handlers
from horizon_app.api.openapi import DESCRIPTION, install_openapi
from horizon_app.api.patient_socket import wrap
from horizon_app.api.request_log import RequestLog
from horizon_app.api.routes import (
    archive,
    checks,
    comparison,
    figures,
    knobs,
    machine,
    models,
    pausing,
    queue,
    records,
    runs,
)
from horizon_app.api.seats import Seats
from horizon_app.api.security import Guard
from horizon_app.api.static import install_ui
from horizon_app.contracts.problems import Problem
from horizon_app.control.access import Access
from horizon_app.control.server_file import ServerClaim
from horizon_app.control.workstation import Workstation
from horizon_app.settings import AppSettings

API = "/api/v1"
MOST_BODY_BYTES = 4 << 20
_GZIP_FROM_BYTES = 1024
_GZIP_LEVEL = 5


def create_app(settings: AppSettings) -> FastAPI:
    """The app for one home folder; `settings.host` and `settings.port` must be what the server listens on."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        settings.home.mkdir(parents=True, exist_ok=True)
        with ServerClaim(settings.home, settings.host, settings.port), Workstation(settings, wrap) as station:
            app.state.workstation = station
            app.state.seats = Seats(settings.max_streams)
            attending = asyncio.create_task(station.attend(), name="attend")
            try:
                yield
            finally:
                await station.generators.close()
                attending.cancel()
                await asyncio.gather(attending, return_exceptions=True)

    app = FastAPI(
        title="Horizon",
        version=horizon_app.__version__,
        description=DESCRIPTION,
        openapi_url=f"{API}/openapi.json",
        # FastAPI's interactive pages load scripts from another host, which the content security policy refuses.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        max_body_size=MOST_BODY_BYTES,
        responses={500: {"model": Problem}},
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.access = Access(settings)
    install_error_handlers(app)
    api = APIRouter(prefix=API)
    for part in (
        comparison.router,  # first: /runs/compare is no run's id
        runs.router,
        queue.router,
        archive.router,
        pausing.router,
        knobs.router,
        checks.router,
        records.router,
        models.router,
        machine.router,
        figures.router,
        stream.router,
    ):
        api.include_router(part)
    app.include_router(api)
    install_openapi(app)
    install_docs(app)
    install_ui(app)
    app.add_middleware(Etags)
    app.add_middleware(GZipMiddleware, minimum_size=_GZIP_FROM_BYTES, compresslevel=_GZIP_LEVEL)
    app.add_middleware(TokenGate, access=app.state.access)
    app.add_middleware(Guard, bound_host=settings.host, allowed_hosts=settings.allowed_hosts)
    app.add_middleware(RequestLog)
    return app
