"""Runs the server in this process: the port first, so that a taken one changes nothing, then everything else."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Generator

import uvicorn
import uvloop

from horizon_app.api.app import create_app
from horizon_app.api.listener import listen
from horizon_app.api.patient_socket import PatientSocket
from horizon_app.api.systemd import notify
from horizon_app.control.access import make_missing_token
from horizon_app.control.errors import ServerRunning
from horizon_app.control.server_file import find_server, forget_server
from horizon_app.logs import log_server
from horizon_app.settings import AppSettings

_log = logging.getLogger(__name__)


def serve(
    settings: AppSettings,
    on_ready: Callable[[str], None] | None = None,
    on_token: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, at the second without waiting; `on_ready` gets the address once it answers.

    `on_token` gets the token where the server needs one and it was made now: nothing else will ever tell it.

    Raises ServerRunning, PortTaken and CannotListen before anything is touched, StoreError for a database that can't be
    used.
    """
    other = find_server(settings.home)
    if other is not None:
        raise ServerRunning(home=str(settings.home), pid=other.pid, host=other.host, port=other.port)
    with contextlib.closing(listen(settings.host, settings.port)) as listener:
        os.environ.pop("HORIZON_TOKEN", None)  # no worker and no other child of ours needs to know it
        token = make_missing_token(settings)
        if token is not None and on_token is not None:
            on_token(token)
        bound = settings.model_copy(update={"port": listener.getsockname()[1]})
        with (
            log_server(settings.log_format, settings.log_level, settings.log_file),
            # It takes a tenth less of the processor that runs train on than asyncio's own loop.
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(_serve(bound, listener, on_ready))


async def _serve(settings: AppSettings, listener: socket.socket, on_ready: Callable[[str], None] | None) -> None:
    app = create_app(settings)
    config = uvicorn.Config(
        app, log_config=None, log_level="warning", lifespan="off", server_header=False, timeout_graceful_shutdown=3,
        ws=PatientSocket, ws_max_size=1 << 16, ws_ping_interval=settings.stream_ping_s,
        ws_ping_timeout=settings.stream_ping_s, ws_per_message_deflate=False,
    )  # fmt: skip
    server = _Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _end, server, number, settings)
    # The lifespan is entered here, so that what goes wrong in it is raised and not only logged.
    async with app.router.lifespan_context(app):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.listening.wait()
        if on_ready is not None and server.started:
            on_ready(_address(settings))
        _log.info("serving %s at %s", settings.home, _address(settings))
        notify("READY=1")
        await serving


def _end(server: "_Server", number: int, settings: AppSettings) -> None:
    """The first signal lets answers end and tells the sockets; the second waits for nothing."""
    if server.should_exit:
        forget_server(settings.home)
        os._exit(128 + number)
    _log.info("%s: ending; training goes on", signal.Signals(number).name)
    notify("STOPPING=1")
    server.handle_exit(number, None)


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn's own handling ends the process before server.json is removed."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, and say so."""
        try:
            await super().startup(sockets)
        finally:
            self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Nothing."""
        yield


def _address(settings: AppSettings) -> str:
    host = "localhost" if settings.host in ("127.0.0.1", "0.0.0.0", "::", "::1") else settings.host  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
